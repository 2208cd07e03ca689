"""Drafting on the server as data: what is asked of a drafter beside the target, and for which session next.

It may not know how anything is drafted, nor streams.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from common.protocol.messages import StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal, TreeView
from server.fault_isolation import FaultIsolation
from server.passes.sequence import HeldSequence


class ServerDrafter(Protocol):
    """Drafts for one session, beside the target."""

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        """One level. `slots` hold the K/V of the leading positions that the target has processed."""
        ...


class ServerDrafterFactory(Protocol):
    """Makes an aide for each session that is to have one."""

    def make(self, state_request: StateRequest | None) -> ServerDrafter:
        """For a session that asked for the draft state `wanted`. Raises OutriderError where it cannot be loaded."""
        ...


MAX_SERVER_DRAFTERS = 16
"""That live at once: each may hold K/V of its own for the longest sequence."""


class DraftedForSession(Protocol):
    """A session for which the server may draft. `assisted` numbers the levels of all sessions: its last one's, in
    `assisted_turn`."""

    session: ServerSession
    sequence: HeldSequence
    state_request: StateRequest | None
    drafter: ServerDrafter | None
    in_pass: bool
    last_drafted_level: int
    last_drafted_turn: int

    @property
    def is_running(self) -> bool: ...


Owner = TypeVar("Owner", bound=DraftedForSession)


@dataclass(frozen=True, slots=True)
class DraftedLevel:
    """What an aide drafted, and the aide."""

    drafter: ServerDrafter
    proposals: Sequence[Proposal]


@dataclass(frozen=True, eq=False, slots=True)
class ServerDraftTask(Generic[Owner]):
    """One level that is to be drafted for a session, and what was so when that began."""

    owner: Owner
    drafter: ServerDrafter | None
    state_request: StateRequest | None
    epoch: int
    cuts: int
    tree: TokenTree
    view: TreeView
    slots: np.ndarray
    is_first: bool
    """Of its turn or of its aide: it also reads the prompt, and may have to load the draft."""

    def draft(self, drafter_factory: ServerDrafterFactory) -> DraftedLevel:
        """Blocking, beside all that changes the session meanwhile. Raises whatever a model raises."""
        drafter = self.drafter or drafter_factory.make(self.state_request)
        return DraftedLevel(drafter, drafter.draft(self.view, self.slots))

    @property
    def drafter_may_stay(self) -> bool:
        """Whether what it runs is still wanted, its slots were nobody else's while it read them, and the tree is the
        one whose ids it knows."""
        owner = self.owner
        held_its_slots = owner.sequence.cuts == self.cuts
        return owner.state_request == self.state_request and held_its_slots and owner.session.tree is self.tree


def claim_draft_task(
    candidates: Iterable[Owner], number: int, isolation: FaultIsolation[Owner]
) -> ServerDraftTask[Owner] | None:
    """The level of that number, for the session that has waited longest; None where no session should have one."""
    for owner in sorted(candidates, key=lambda each: each.last_drafted_level):
        with isolation(owner):
            session = owner.session
            view = session.server_draft_view(owner.in_pass)
            if view is None:
                continue
            is_first = owner.drafter is None or owner.last_drafted_turn != session.turn
            owner.last_drafted_level, owner.last_drafted_turn = number, session.turn
            return ServerDraftTask(
                owner,
                drafter=owner.drafter,
                state_request=owner.state_request,
                epoch=session.epoch,
                cuts=owner.sequence.cuts,
                tree=session.tree,
                view=view,
                # A copy, because the session may go on while it is drafted for.
                slots=owner.sequence.slots.copy(),
                is_first=is_first,
            )
    return None


def drop_one_drafter(owners: Iterable[Owner]) -> None:
    """Where as many aides live as may, takes one from the session that misses it least: one that has finished, and of
    several the one that was helped longest ago."""
    aided = [owner for owner in owners if owner.drafter is not None]
    if len(aided) >= MAX_SERVER_DRAFTERS:
        min(aided, key=lambda owner: (owner.is_running, owner.last_drafted_level)).drafter = None
