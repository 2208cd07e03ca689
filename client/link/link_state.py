"""Whether the server is within reach, as far as a client can tell: the states of its link, and what moves them.

Pure: times are arguments, in seconds on any steady clock, and chance is injected. It may not know sessions, drafting or
streams; it says when to ask for a sign of life, when to give a stream up and when to try a new one.
"""

import math
from collections.abc import Callable
from enum import Enum

from common.protocol.response_time import ResponseTime


class LinkState(Enum):
    ONLINE = "online"
    SUSPECT = "suspect"  # an answer is overdue
    OFFLINE = "offline"  # there is no stream
    RESUMING = "resuming"  # a new stream has not answered yet


class LinkEvent(Enum):
    HEARD = "heard"
    OVERDUE = "overdue"
    BROKEN = "broken"
    RETRIED = "retried"


TRANSITIONS: dict[LinkState, dict[LinkEvent, LinkState]] = {
    LinkState.ONLINE: {
        LinkEvent.HEARD: LinkState.ONLINE,
        LinkEvent.OVERDUE: LinkState.SUSPECT,
        LinkEvent.BROKEN: LinkState.OFFLINE,
    },
    LinkState.SUSPECT: {
        LinkEvent.HEARD: LinkState.ONLINE,
        LinkEvent.OVERDUE: LinkState.OFFLINE,
        LinkEvent.BROKEN: LinkState.OFFLINE,
    },
    LinkState.OFFLINE: {
        LinkEvent.BROKEN: LinkState.OFFLINE,
        LinkEvent.RETRIED: LinkState.RESUMING,
    },
    LinkState.RESUMING: {
        LinkEvent.HEARD: LinkState.ONLINE,
        LinkEvent.OVERDUE: LinkState.OFFLINE,
        LinkEvent.BROKEN: LinkState.OFFLINE,
    },
}
"""What is not here cannot happen."""


class LinkAction(Enum):
    PROBE = "probe"  # ask for a sign of life
    GIVE_UP = "give up"  # close the stream, which will not answer
    RETRY = "retry"  # begin a new stream


_UNKNOWN_SECONDS = 1.0  # until the first round trip is measured
_LEAST_TIMEOUT = 0.1
_LEAST_QUIET = 0.1
"""Silence that needs no probe, however near the server is."""

_SUSPECT_TIMEOUTS, _LEAST_SUSPECT = 4.0, 1.0
"""For how long an overdue answer is waited for before its stream is given up: in timeouts, and at least in seconds."""

_RESUME_TIMEOUTS, _LEAST_RESUME = 6.0, 2.0
"""For how long a new stream may take to answer: connections and their security take some round trips."""

_FIRST_PAUSE, _GROWTH = 0.1, 2.0
_LONG_PAUSE = 0.5  # at most, in the first stretch of an outage, most of which are tunnels and handovers
_LONG_OUTAGE = 60.0
_LONGEST_PAUSE = 8.0  # thereafter


class LinkWatch:
    """One link of one session. `chance` draws evenly from [0, 1)."""

    def __init__(self, chance: Callable[[], float]):
        self.state = LinkState.OFFLINE
        self.reconnects = 0  # streams that answered, but for the first
        self._chance = chance
        self._trips = ResponseTime()
        self._probes = 0  # sent, and so the number of the latest
        self._heard_at = -math.inf  # the last sign of life, or when one was first waited for
        self._probed_at: float | None = None  # the first probe since
        self._expects = False
        self._since = -math.inf  # of this state
        self._broken_since: float | None = None
        self._pause = _FIRST_PAUSE
        self._retry_at = -math.inf
        self.has_been_heard = False
        self.is_held = False  # by a person, who wants no server

    @property
    def is_good(self) -> bool:
        """Whether what is drafted now is likely to be judged soon: a first stream is believed to stand."""
        is_first = self.state is LinkState.RESUMING and not self.has_been_heard and self._broken_since is None
        return is_first or self.state is LinkState.ONLINE

    @property
    def timeout(self) -> float:
        """Seconds within which a probe is answered; as TCP times its retransmissions (RFC 6298)."""
        return max(_LEAST_TIMEOUT, self._trips.allowance(unknown=_UNKNOWN_SECONDS))

    @property
    def quiet(self) -> float:
        """Seconds of silence after which a sign of life is asked for."""
        return max(_LEAST_QUIET, self.timeout / 2)

    @property
    def due(self) -> float:
        """When `tick` next has something to say."""
        if self.state is LinkState.OFFLINE:
            return math.inf if self.is_held else self._retry_at
        if not self._expects:
            return math.inf
        match self.state:
            case LinkState.RESUMING:
                return self._since + max(_LEAST_RESUME, _RESUME_TIMEOUTS * self.timeout)
            case LinkState.SUSPECT:
                return self._since + max(_LEAST_SUSPECT, _SUSPECT_TIMEOUTS * self.timeout)
        return self._heard_at + self.quiet if self._probed_at is None else self._probed_at + self.timeout

    def tick(self, now: float) -> LinkAction | None:
        """What is to be done now, if anything. A probe is to carry the number of `probed`; who gives up or retries
        says so by `broken` and `retried`."""
        if now < self.due:
            return None
        match self.state:
            case LinkState.OFFLINE:
                return LinkAction.RETRY
            case LinkState.ONLINE if self._probed_at is None:
                return LinkAction.PROBE
            case LinkState.ONLINE:
                self._move(LinkEvent.OVERDUE, now)
                return LinkAction.PROBE
            case _:
                return LinkAction.GIVE_UP

    def expect(self, now: float) -> None:
        """From now on the server has something to say."""
        if not self._expects:
            self._expects = True
            # How long a person thought before is no silence.
            self._since = max(self._since, now)
            self._heard_at = max(self._heard_at, now)
            self._probed_at = None

    def rest(self) -> None:
        """The server has nothing more to say, and nobody reads what it says."""
        self._expects = False
        self._trips.restart()

    def probed(self, now: float) -> int:
        """A probe leaves; returns its number."""
        self._probes += 1
        if self._probed_at is None:
            self._probed_at = now
        self._trips.committed(self._probes, now)
        return self._probes

    def answered(self, number: int, now: float) -> None:
        """The answer to a probe came."""
        self._trips.acknowledged(number, now)

    def heard(self, now: float) -> None:
        """Anything came."""
        if self.state is LinkState.RESUMING:
            self.reconnects += self.has_been_heard
            if self._trips.is_unknown:
                self._trips.observe(now - self._since)
        self.has_been_heard = True
        self._move(LinkEvent.HEARD, now)
        self._heard_at, self._probed_at = now, None
        self._broken_since, self._pause = None, _FIRST_PAUSE

    def broken(self, now: float, wait: float = 0.0) -> None:
        """The stream ended or was given up, and is not to be tried for `wait` seconds. When to try again is drawn, so
        that clients that lost a server together do not all come back together."""
        if self._broken_since is None:
            self._broken_since = now
        self._trips.restart()
        self._move(LinkEvent.BROKEN, now)
        self._retry_at = now + wait + self._pause * (0.5 + self._chance() / 2)
        longest = _LONG_PAUSE if now - self._broken_since < _LONG_OUTAGE else _LONGEST_PAUSE
        self._pause = min(longest, self._pause * _GROWTH)

    def retry_now(self) -> None:
        """A person wants it tried at once."""
        self._retry_at = -math.inf
        self._pause = _FIRST_PAUSE

    def hold(self) -> None:
        """A person wants none tried before `release`; who holds a stream says that it is gone by `broken`."""
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        self.retry_now()

    def retried(self, now: float) -> None:
        """A new stream has begun."""
        self._move(LinkEvent.RETRIED, now)

    def _move(self, event: LinkEvent, now: float) -> None:
        after = TRANSITIONS[self.state][event]
        if after is not self.state:
            self.state, self._since = after, now
