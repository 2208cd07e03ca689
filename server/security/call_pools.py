"""Admission control of calls: a small pool for each kind, so that calls of one kind never take the slots of another.

A full pool accepts a new call and gives up a call of the connection that holds most of its slots, so that a client that
begins hundreds of calls displaces its own. Pure: times in seconds are arguments. It may not know gRPC, sessions, or
what a call says; the owner of a `CallSlot` ends its call when `give_up` is called.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from server.events import CallsRefused, EventListener, ignore_event

_REPORTED_EVERY_SECONDS = 10.0
"""At most one event for each kind and refusal in this time, so that clients cannot fill the log."""


class CallKind(StrEnum):
    HEALTH_CHECK = "health_check"
    HEALTH_WATCH = "health_watch"
    DESCRIBE = "describe"  # and reflection: short questions
    FETCH = "fetch"  # files of bundles
    OPENING = "opening"  # streams that have not sent their Open
    ENDED = "ended"  # streams without a session any more, whose last messages are unread
    REFUSED = "refused"  # calls that are being refused


class CallRefusal(StrEnum):
    TOKEN = "token"  # none that is valid
    CONNECTION = "connection"  # has as many calls of this kind as one may have
    CLIENT = "client"  # the token has
    DISPLACED = "displaced"  # by a newer call, where the pool was full
    SLOW = "slow"  # the request did not come, or the reply was not read, in time
    SIZE = "size"  # the request is larger than any of its kind
    REQUEST = "request"  # there is none, or it cannot be decoded
    METHOD = "method"  # that does not exist


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of one kind of calls. A token that everybody shares has no limit of its own."""

    calls: int
    of_a_connection: float = inf
    of_a_client: float = inf
    request_bytes: int = 0
    request_seconds: float = 5.0  # until the request is there
    seconds: float = inf  # of a whole call


LIMITS: Mapping[CallKind, PoolLimits] = {
    CallKind.HEALTH_CHECK: PoolLimits(16, 8, 8, request_bytes=256, seconds=10.0),
    CallKind.HEALTH_WATCH: PoolLimits(16, 4, 4, request_bytes=256, seconds=3600.0),
    CallKind.DESCRIBE: PoolLimits(16, 8, 8, request_bytes=4096, seconds=10.0),
    CallKind.FETCH: PoolLimits(32, 4, 8, request_bytes=4096),
    CallKind.OPENING: PoolLimits(64, 32, 32),
    CallKind.ENDED: PoolLimits(64, seconds=30.0),
    CallKind.REFUSED: PoolLimits(64, seconds=5.0),
}
"""A stream's messages are limited by the channel and its time until Open by the servicer, which says so in a frame."""


@dataclass(eq=False, slots=True)
class CallSlot:
    """The slot that a call holds while it lasts."""

    kind: CallKind
    peer: str  # the connection
    client: str  # the name of its token, empty where there is none or all share it
    began: float
    give_up: Callable[[CallRefusal], None]
    moved_bytes: int = 0  # of what it fetches


class CallRefusedError(Exception):
    """A call is refused. Internal: the call gate turns it into a status for the client."""

    def __init__(self, call_refusal: CallRefusal):
        super().__init__(call_refusal)
        self.call_refusal = call_refusal


@dataclass(slots=True)
class CallPools:
    limits: Mapping[CallKind, PoolLimits] = field(default_factory=lambda: LIMITS)
    on_event: EventListener = ignore_event
    refused: Counter[tuple[CallKind, CallRefusal]] = field(default_factory=Counter)  # since the start
    _reported: dict[tuple[CallKind, CallRefusal], tuple[float, int]] = field(default_factory=dict)  # time and count
    _slots: dict[CallKind, list[CallSlot]] = field(default_factory=lambda: {kind: [] for kind in CallKind})

    def held(self, kind: CallKind) -> int:
        return len(self._slots[kind])

    def enter(self, slot: CallSlot, now: float) -> None:
        """Raises CallRefusedError where the connection or the token has its maximum; displaces another call where the
        whole pool is full."""
        limits, others = self.limits[slot.kind], self._slots[slot.kind]
        if sum(other.peer == slot.peer for other in others) >= limits.of_a_connection:
            raise CallRefusedError(CallRefusal.CONNECTION)
        if slot.client and sum(other.client == slot.client for other in others) >= limits.of_a_client:
            raise CallRefusedError(CallRefusal.CLIENT)
        if len(others) >= limits.calls:
            displaced = _least_deserving(others, now)
            others.remove(displaced)
            displaced.give_up(CallRefusal.DISPLACED)
        others.append(slot)

    def leave(self, slot: CallSlot) -> None:
        """May be called twice: a call that was displaced has left already."""
        if slot in self._slots[slot.kind]:
            self._slots[slot.kind].remove(slot)

    def count(self, kind: CallKind, call_refusal: CallRefusal, now: float) -> None:
        """Counts a refusal. The first one emits an event at once, later ones are collected for some seconds."""
        key = kind, call_refusal
        self.refused[key] += 1
        reported_at, reported = self._reported.get(key, (-inf, 0))
        if now - reported_at >= _REPORTED_EVERY_SECONDS:
            self._reported[key] = now, self.refused[key]
            self.on_event(CallsRefused(kind, call_refusal, self.refused[key] - reported))


def _least_deserving(slots: list[CallSlot], now: float) -> CallSlot:
    """Of the connection with the most calls, the call that transfers least, the oldest of several."""
    calls = Counter(slot.peer for slot in slots)
    return min(slots, key=lambda each: (-calls[each.peer], each.moved_bytes / max(now - each.began, 1e-3), each.began))
