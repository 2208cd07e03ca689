"""Draft state that has come and that a drafter has not taken yet, because another drafts in its place."""

from collections.abc import Sequence
from dataclasses import replace

from common.protocol.messages import State


def still_owed(states: Sequence[State], keep: int) -> list[State]:
    """What is left of them where positions from `keep` on were rewritten."""
    return [replace(state, count=min(state.count, keep - state.start)) for state in states if state.start < keep]
