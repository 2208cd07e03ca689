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
        """For a session that asked for this draft state. Raises OutriderError where it cannot be loaded."""
        ...


MAX_SERVER_DRAFTERS = 16
"""That exist at once: each may hold K/V of its own for the longest sequence."""

LEVELS_IN_A_ROW = 12
"""For one session while others wait, where its policy drafts during passes. Of such levels the first is for the token
that the pass commits anyway: sixteen sessions with a level each in every pass gain nothing, one with sixteen gains
nearly as many tokens."""


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


class LevelScheduler:
    """Which session gets the next level."""

    def __init__(self) -> None:
        self._levels = 0  # of all sessions
        self._in_a_row = 0  # the latest of them, of one session

    def claim(
        self,
        asking: Sequence[Owner],
        present: Iterable[Owner],
        away: Iterable[Owner],
        isolation: FaultIsolation[Owner],
    ) -> ServerDraftTask[Owner] | None:
        """The next task: for the session that got the last level, up to `LEVELS_IN_A_ROW`, else for the one that has
        waited longest; None where no session should get a level.

        `asking` want one, of the `present` sessions, those with a stream; `away` are those on lease. Who is present
        keeps its drafter to the end of its answer, or a crowd that takes them from one another would begin each level
        by a prompt. Of the other drafters the one that drafted longest ago is dropped where there are too many.
        """
        kept = [owner for owner in present if owner.drafter is not None and _needs_drafter(owner)]
        spare = _with_spare_drafters(present, away)
        for owner in asking:
            owner.session.lacks_drafter = owner.drafter is None and len(kept) >= MAX_SERVER_DRAFTERS
        for owner in sorted(asking, key=self._place):
            with isolation(owner):
                view = owner.session.server_draft_view(owner.in_pass)
                if view is None:
                    continue
                if owner.drafter is None and len(kept) + len(spare) >= MAX_SERVER_DRAFTERS:
                    min(spare, key=lambda each: each.last_drafted_level).drafter = None
                return self._task(owner, view)
        return None

    def _is_latest(self, owner: DraftedForSession) -> bool:
        return owner.last_drafted_level == self._levels

    def _place(self, owner: DraftedForSession) -> tuple[bool, int]:
        goes_on = owner.session.idle_policy.overlaps and self._is_latest(owner) and self._in_a_row < LEVELS_IN_A_ROW
        return not goes_on, owner.last_drafted_level

    def _task(self, owner: Owner, view: TreeView) -> ServerDraftTask[Owner]:
        session = owner.session
        is_first = owner.drafter is None or owner.last_drafted_turn != session.turn
        self._in_a_row = self._in_a_row + 1 if self._is_latest(owner) else 1
        self._levels += 1
        owner.last_drafted_level, owner.last_drafted_turn = self._levels, session.turn
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


def drop_spare_drafters(present: Iterable[DraftedForSession], away: Iterable[DraftedForSession]) -> None:
    """For a device without memory, of which each drafter may hold as much as its session. Sessions are as those of
    `LevelScheduler.claim`."""
    for owner in _with_spare_drafters(present, away):
        owner.drafter = None


def _with_spare_drafters(present: Iterable[Owner], away: Iterable[Owner]) -> list[Owner]:
    """Sessions whose drafters wait for a next turn or for a client that is back."""
    waiting = (*(owner for owner in present if not _needs_drafter(owner)), *away)
    return [owner for owner in waiting if owner.drafter is not None]


def _needs_drafter(owner: DraftedForSession) -> bool:
    return owner.is_running and not owner.session.stalled
