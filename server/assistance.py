"""Drafting on the server as data: what is asked of a drafter beside the target, and for which session next.

It may not know how anything is drafted, nor streams.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from common.protocol.messages import StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.views import Proposal, TreeView
from server.sequence import HeldSequence


class Aide(Protocol):
    """Drafts for one session, beside the target."""

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        """One level. `slots` hold the K/V of the leading positions that the target has processed."""
        ...


class Aides(Protocol):
    """Makes an aide for each session that is to have one."""

    def make(self, wanted: StateRequest | None) -> Aide:
        """For a session that asked for the draft state `wanted`. Raises OutriderError where it cannot be loaded."""
        ...


class Aided(Protocol):
    """A session for which the server may draft. `assisted` numbers the levels of all sessions: its last one's, in
    `assisted_turn`."""

    session: ServerSession
    sequence: HeldSequence
    wanted: StateRequest | None
    aide: Aide | None
    in_pass: bool
    assisted: int
    assisted_turn: int


Owner = TypeVar("Owner", bound=Aided)


@dataclass(frozen=True, eq=False, slots=True)
class Assistance(Generic[Owner]):
    """One level that is to be drafted for a session, from its tree as it was in `epoch`."""

    owner: Owner
    epoch: int
    view: TreeView
    slots: np.ndarray
    is_first: bool
    """Of its turn: it also reads the prompt, and may have to load the draft."""

    def draft(self, aides: Aides) -> Sequence[Proposal]:
        """Blocking; the session's aide is made on its first level. Raises whatever a model raises."""
        if self.owner.aide is None:
            self.owner.aide = aides.make(self.owner.wanted)
        return self.owner.aide.draft(self.view, self.slots)


def claim_assistance(candidates: Iterable[Owner]) -> Assistance[Owner] | None:
    """The next level, for the session that has waited longest; None where no session should have one."""
    waiting = sorted((each for each in candidates if each.session.may_be_assisted), key=lambda each: each.assisted)
    for owner in waiting:
        view = owner.session.assistance(owner.in_pass)
        if view is not None:
            owner.assisted = waiting[-1].assisted + 1
            # A copy, because the session may go on while it is drafted for.
            turn = owner.session.turn
            is_first, owner.assisted_turn = owner.assisted_turn != turn, turn
            return Assistance(owner, owner.session.epoch, view, owner.sequence.slots.copy(), is_first)
    return None
