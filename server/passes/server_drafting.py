"""Server drafting as data: the next level to draft beside the target, and for which session.

It may not know how anything is drafted, nor streams.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from common.protocol.messages import StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal, TargetChoices, TreeView
from server.fault_isolation import FaultIsolation
from server.passes.sequence import HeldSequence


class ServerDrafter(Protocol):
    """Drafts for one session, beside the target."""

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        """One level. `slots` hold the K/V of the leading positions that the target has processed."""
        ...


class ServerDrafterFactory(Protocol):
    """Makes a drafter for each session that needs one."""

    def make(self, state_request: StateRequest | None) -> ServerDrafter:
        """For a session that asked for the draft state `wanted`. Raises OutriderError where it cannot be loaded."""
        ...


MAX_SERVER_DRAFTERS = 16
"""That exist at once: each may hold K/V of its own for the longest sequence."""


class DraftedForSession(Protocol):
    """A session for which the server may draft. `last_drafted_level` is the number of its last level, counted over all
    sessions, and `last_drafted_turn` the turn of that level."""

    session: ServerSession
    sequence: HeldSequence
    state_request: StateRequest | None
    drafter: ServerDrafter | None
    in_pass: bool
    last_drafted_level: int
    last_drafted_turn: int

    @property
    def choices(self) -> TargetChoices | None: ...

    @property
    def is_running(self) -> bool: ...


Owner = TypeVar("Owner", bound=DraftedForSession)


@dataclass(frozen=True, slots=True)
class DraftedLevel:
    """What a drafter proposed, and the drafter."""

    drafter: ServerDrafter
    proposals: Sequence[Proposal]


@dataclass(frozen=True, eq=False, slots=True)
class ServerDraftTask(Generic[Owner]):
    """One level to draft for a session, and the state of the session when the task was made."""

    owner: Owner
    drafter: ServerDrafter | None
    state_request: StateRequest | None
    epoch: int
    cuts: int
    tree: TokenTree
    view: TreeView
    slots: np.ndarray
    is_first: bool
    """The first level of its turn or of its drafter: it also reads the prompt, and may have to load the draft model."""

    def draft(self, drafter_factory: ServerDrafterFactory) -> DraftedLevel:
        """Blocking; the session may change meanwhile. Raises whatever a model raises."""
        drafter = self.drafter or drafter_factory.make(self.state_request)
        return DraftedLevel(drafter, drafter.draft(self.view, self.slots))

    @property
    def drafter_may_stay(self) -> bool:
        """Whether its draft state request still holds, no slot that it read was given to another session meanwhile, and
        the tree is still the one whose ids it knows."""
        owner = self.owner
        held_its_slots = owner.sequence.cuts == self.cuts
        return owner.state_request == self.state_request and held_its_slots and owner.session.tree is self.tree


def claim_draft_task(
    candidates: Iterable[Owner], number: int, isolation: FaultIsolation[Owner]
) -> ServerDraftTask[Owner] | None:
    """The next task, for the session that has waited longest; None where no session should get a level. `number` counts
    the levels of all sessions."""
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
                view=replace(view, choices=owner.choices),
                # A copy, because the session may go on while it is drafted for.
                slots=owner.sequence.slots.copy(),
                is_first=is_first,
            )
    return None


def drop_one_drafter(owners: Iterable[Owner]) -> None:
    """Drops a drafter where as many exist as may: that of a finished session, of several the one that drafted longest
    ago."""
    aided = [owner for owner in owners if owner.drafter is not None]
    if len(aided) >= MAX_SERVER_DRAFTERS:
        min(aided, key=lambda owner: (owner.is_running, owner.last_drafted_level)).drafter = None
