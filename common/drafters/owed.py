"""Draft state that has come and that a drafter has not taken yet, because another drafts in its place."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from common.drafters.drafter import Drafter
from common.protocol.messages import State


class OwedStates:
    """Each of `drafters` gets every frame once and in order, as no frame is sent again."""

    def __init__(self, drafters: Iterable[Drafter]):
        self._owed: dict[Drafter, list[State]] = {drafter: [] for drafter in drafters}

    def add(self, states: Sequence[State]) -> None:
        for owed in self._owed.values():
            owed += states

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        for drafter, owed in self._owed.items():
            self._owed[drafter] = [
                replace(state, count=min(state.count, keep - state.start)) for state in owed if state.start < keep
            ]

    def take(self, drafter: Drafter) -> Sequence[State]:
        """What has come since the last call for it; nothing for one that is not owed any."""
        owed = self._owed.get(drafter, [])
        if owed:
            self._owed[drafter] = []
        return owed
