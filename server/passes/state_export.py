"""Draft state to export from the target's K/V for clients, as data, and which session is next.

It may not know how state is computed or encoded, nor streams.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from common.protocol.messages import StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.state_feed import Span
from server.fault_isolation import FaultIsolation
from server.passes.sequence import HeldSequence

MAX_POSITIONS_PER_STEP = 128
"""Positions exported before a pass, at most one frame more: a pass that is due must not wait long."""


@dataclass(frozen=True, eq=False, slots=True)
class ExportRequest:
    """Draft state to compute and encode: of one kind, for the tokens whose K/V lie in `slots`, int64 `[positions]`."""

    state_request: StateRequest
    kind: str
    slots: np.ndarray
    stamps: np.ndarray | None = None
    """Those of `HeldSequence.stamps`: what is made for a slot with a stamp may be sent again wherever both occur."""


class StateFedSession(Protocol):
    """A session to which draft state may be sent. `last_state_claim`: the number of its last claim, counted
    over all sessions."""

    session: ServerSession
    sequence: HeldSequence
    state_request: StateRequest | None
    last_state_claim: int


Owner = TypeVar("Owner", bound=StateFedSession)


@dataclass(frozen=True, eq=False, slots=True)
class StateExport(Generic[Owner]):
    """A claimed span of one session, and the request for its state."""

    owner: Owner
    span: Span
    request: ExportRequest


def claim_exports(candidates: Iterable[Owner], isolation: FaultIsolation[Owner]) -> list[StateExport[Owner]]:
    """Claims one frame of each session in turn, while there is room in the step; those that waited longest first."""
    waiting = deque(
        sorted((each for each in candidates if each.state_request is not None), key=lambda each: each.last_state_claim)
    )
    claims = waiting[-1].last_state_claim if waiting else 0
    exports: list[StateExport[Owner]] = []
    positions = 0
    while waiting and positions < MAX_POSITIONS_PER_STEP:
        owner = waiting.popleft()
        with isolation(owner):
            span = owner.session.next_span()
            if span is None or owner.state_request is None:
                continue
            claims += 1
            owner.last_state_claim = claims
            positions += span.count
            # A copy, because the session may go on while its state is computed.
            end = span.start + span.count
            slots, stamps = owner.sequence.slots[span.start : end].copy(), owner.sequence.stamps(span.start, end)
            request = ExportRequest(owner.state_request, span.kind.name, slots, stamps)
            exports.append(StateExport(owner, span, request))
            waiting.append(owner)
    return exports
