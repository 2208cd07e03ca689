"""One session's part of a pass: its new tokens, the slots of their K/V, and what each of them attends to.

Plain data and its consistency checks. It may not know torch, models, or who made it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from common.integers import IntArray, Integers


class PassInput(Protocol):
    """One session's part of a packed pass, whoever schedules it: the fields of `Segment`, which says what they mean."""

    @property
    def tokens(self) -> Integers: ...

    @property
    def slots(self) -> Integers: ...

    @property
    def parents(self) -> Integers: ...

    @property
    def past_slots(self) -> Integers: ...

    @property
    def wanted(self) -> Integers: ...


@dataclass(frozen=True, eq=False)
class Segment:
    """One session's part of a packed pass.

    A session's K/V are its past (a plain prefix of the sequence, seen by every new token) and its branches,
    which hang from the past's last entry: m - n entries that earlier passes computed and this pass only looks at,
    then the n that this pass computes. Each entry sees the whole past, its ancestors and itself. Its position is
    the length of the past plus its depth, so that positions are never passed and never wrong.

    A chain is `parents=range(-1, n - 1)`. Prefill chunk, unprocessed root and tree nodes below it are one
    segment: the chain first, then the nodes. A branch that becomes committed moves, slot and all, to
    `past_slots`, or its K/V are moved into the next slot of the past: consecutive slots are attended where they lie.

    Raises `ValueError` where the lengths contradict each other.
    """

    tokens: Integers
    """The ids of the n >= 1 new tokens: the last n branches."""
    slots: Integers
    """The slots of all m >= n branches. The pass writes the last n of them."""
    parents: Integers
    """For each of the m branches, the index of its parent among them (below its own), or -1 for the past."""
    past_slots: Integers = ()
    """The slots of positions 0, 1, 2, ..."""
    wanted: Integers = ()
    """Indices into `tokens` of the rows whose logits are wanted, in the order in which they are wanted."""

    def __post_init__(self) -> None:
        if len(self.tokens) == 0:
            raise ValueError("a segment needs at least one new token")
        if len(self.slots) != len(self.parents):
            raise ValueError(f"{len(self.slots)} slots but {len(self.parents)} parents: one of each per branch")
        if len(self.slots) < len(self.tokens):
            raise ValueError(f"{len(self.tokens)} new tokens but only {len(self.slots)} slots for branches")


def path_slots(segment: Segment, token: int) -> IntArray:
    """The slots of all that a new token sees, itself last: the past, its ancestors and its own. `token`: its index."""
    branch = len(segment.slots) - len(segment.tokens) + token
    path = []
    while branch >= 0:
        path.append(int(segment.slots[branch]))
        branch = int(segment.parents[branch])
    return np.concatenate([np.asarray(segment.past_slots, dtype=np.int64), path[::-1]])
