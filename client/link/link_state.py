"""The state of the link, as far as a client can tell: whether the server is within reach, and what changes that.

Pure: times are arguments, in seconds on any steady clock, and random numbers are passed in. It may not know sessions,
drafting or streams; it decides when to probe, when to give a stream up and when to dial a new one.
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
"""Every possible transition."""


class LinkAction(Enum):
    PROBE = "probe"  # send a Ping
    GIVE_UP = "give up"  # close the stream, which will not answer
    RETRY = "retry"  # begin a new stream


_UNKNOWN_TIMEOUT_S = 1.0  # until the first round trip is measured
_LEAST_TIMEOUT_S = 0.1
_LEAST_QUIET_S = 0.1
"""Silence that needs no probe, however near the server is."""

_SUSPECT_TIMEOUTS, _LEAST_SUSPECT_S = 4.0, 1.0
"""An overdue answer is waited for so many timeouts before its stream is given up, and at least so many seconds."""

_RESUME_TIMEOUTS, _LEAST_RESUME_S = 6.0, 2.0
"""A new stream may take so long to answer: a connection and its TLS take some round trips."""

_SLOWEST_UPLOAD_BYTES_PER_S = 16_000.0
"""Half of 256 kbit/s, the slowest uplink that we mean to serve. A stream is given up later by what a long prompt takes
at this rate, or all of a conversation on a new stream, which has to come whole before anything is answered."""

_FIRST_PAUSE_S, _GROWTH = 0.1, 2.0
_LONG_PAUSE_S = 0.5  # at most, in the first stretch of an outage, most of which are tunnels and handovers
_LONG_OUTAGE_S = 60.0
_LONGEST_PAUSE_S = 8.0  # thereafter


class LinkWatch:
    """One link of one session. `uniform` draws evenly from [0, 1)."""

    def __init__(self, uniform: Callable[[], float]):
        self.state = LinkState.OFFLINE
        self.reconnects = 0  # streams that answered, but for the first
        self._uniform = uniform
        self._trips = ResponseTime()
        self._probes = 0  # sent, and so the number of the latest
        self._heard_at = -math.inf  # when a frame last came, or was first waited for
        self._probed_at: float | None = None  # the first probe since
        self._asked_at: float | None = None  # the probe that is timed, whatever else is heard before its answer
        self._sent_bytes = 0  # on this stream
        self._counted_at = -math.inf  # when that was last told
        self._probed_bytes = 0  # sent before the latest probe
        self._uploaded_by = -math.inf  # when the slowest uplink has carried what may be under way
        self._may_forgive = True  # a stall: one in each state, and for each frame that was heard
        self._expects = False
        self._since = -math.inf  # of this state
        self._broken_since: float | None = None
        self._pause = _FIRST_PAUSE_S
        self._retry_at = -math.inf
        self.has_been_heard = False
        self.is_held = False  # by a person, who wants to be offline

    @property
    def is_good(self) -> bool:
        """Whether what is drafted now is likely to be verified soon: a first stream is believed to work."""
        is_first = self.state is LinkState.RESUMING and not self.has_been_heard and self._broken_since is None
        return is_first or self.state is LinkState.ONLINE

    @property
    def timeout_s(self) -> float:
        """Seconds within which a probe should be answered, as TCP times its retransmissions (RFC 6298)."""
        return max(_LEAST_TIMEOUT_S, self._trips.allowance(unknown=_UNKNOWN_TIMEOUT_S))

    @property
    def quiet_s(self) -> float:
        """Seconds of silence after which a probe is sent."""
        return max(_LEAST_QUIET_S, self.timeout_s / 2)

    @property
    def upload_s(self) -> float:
        """Seconds that the slowest uplink takes for what this state may wait for: what a new stream begins with, or
        what was under way when an answer became overdue."""
        match self.state:
            case LinkState.RESUMING:
                return _seconds_to_upload(self._sent_bytes)
            case LinkState.SUSPECT:
                return max(0.0, self._uploaded_by - self._since)
        return 0.0

    @property
    def due(self) -> float:
        """When `tick` has its next action."""
        if self.state is LinkState.OFFLINE:
            return math.inf if self.is_held else self._retry_at
        if not self._expects:
            return math.inf
        match self.state:
            case LinkState.RESUMING:
                patience = max(_LEAST_RESUME_S, _RESUME_TIMEOUTS * self.timeout_s)
                return self._since + self.upload_s + patience
            case LinkState.SUSPECT:
                return self._since + self.upload_s + self._suspect_s
        return self._heard_at + self.quiet_s if self._probed_at is None else self._probed_at + self.timeout_s

    @property
    def _suspect_s(self) -> float:
        return max(_LEAST_SUSPECT_S, _SUSPECT_TIMEOUTS * self.timeout_s)

    def tick(self, now: float) -> LinkAction | None:
        """The action that is due now, if any. A probe is to carry the number that `probed` returns; a caller that gives
        up or retries reports it by `broken` and `retried`."""
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
        """From now on the server has something to send."""
        if not self._expects:
            self._expects = True
            # The time in which a person thought does not count as silence.
            self._since = max(self._since, now)
            self._heard_at = max(self._heard_at, now)
            self._probed_at = None

    def rest(self) -> None:
        """The server has nothing more to send, and nobody reads."""
        self._expects = False
        self._trips.restart()
        self._asked_at = None

    def sent(self, size_bytes: int, now: float) -> None:
        """So many bytes have been sent on this stream, all together."""
        if self.state is not LinkState.SUSPECT:  # what is drafted alone meanwhile prolongs no wait
            self._uploaded_by = max(self._uploaded_by, now) + _seconds_to_upload(size_bytes - self._sent_bytes)
        self._sent_bytes, self._counted_at = size_bytes, now

    def probed(self, now: float) -> int:
        """A probe leaves; returns its number."""
        self._probes += 1
        if self._probed_at is None:
            self._probed_at = now
        if self._asked_at is None:
            self._asked_at = now
        self._trips.committed(self._probes, now)
        self._probed_bytes = self._sent_bytes
        return self._probes

    def answered(self, number: int, now: float) -> None:
        """The answer to a probe came; 0 answers none: the server says that the stream stands, and answers probes later,
        so that they tell nothing of the way."""
        if number == 0:
            self._trips.restart()
            self._asked_at = None
            return
        if self._asked_at is not None and now - self._asked_at > self.timeout_s + self._suspect_s:
            self._trips.restart()  # this process did not run, or the probe waited behind a long frame
        if number == self._probes:  # messages keep their order: what was sent before the probe has come
            self._uploaded_by = min(self._uploaded_by, now + _seconds_to_upload(self._sent_bytes - self._probed_bytes))
        self._asked_at = None
        self._trips.acknowledged(number, now)

    def heard(self, now: float) -> None:
        """A frame came."""
        if self.state is LinkState.RESUMING:
            self.reconnects += self.has_been_heard
            took = now - self._since
            # Else it times the upload, or a connection that had to be made again: a probe will tell.
            if self._trips.is_unknown and _seconds_to_upload(self._sent_bytes) < self.quiet_s and took < self.timeout_s:
                self._trips.observe(took)
            self._uploaded_by = now  # nothing is answered before all has come that a new stream begins with
        self.has_been_heard = True
        self._move(LinkEvent.HEARD, now)
        self._heard_at, self._probed_at = now, None
        self._counted_at = max(self._counted_at, now)
        self._may_forgive = True
        self._broken_since, self._pause = None, _FIRST_PAUSE_S

    def stalled(self, now: float) -> None:
        """This process did not run for a while, and heard nothing of what came meanwhile: the wait for an answer begins
        anew, once in each state and for each frame heard: a process that is always late must still notice a dead
        server."""
        if not self._may_forgive:
            return
        self._may_forgive = False
        self._heard_at = self._since = now
        self._uploaded_by = now + max(0.0, self._uploaded_by - self._counted_at)
        self._trips.restart()
        self._asked_at = None
        if self._probed_at is not None:
            self._probed_at = now

    def silence_s(self, now: float) -> float:
        """Seconds for which this stream has been silent, as far as this process could have heard it."""
        return now - (self._since if self.state is LinkState.RESUMING else self._heard_at)

    def broken(self, now: float, wait: float = 0.0) -> None:
        """The stream ended or was given up, and is not to be tried again for `wait` seconds. The pause has jitter, so
        that clients that lost a server together do not all come back together. It stays short where a server has said
        when to come back: to one that comes much later no room is promised."""
        if self._broken_since is None:
            self._broken_since = now
        self._trips.restart()
        self._asked_at = None
        self._move(LinkEvent.BROKEN, now)
        is_short = wait > 0 or now - self._broken_since < _LONG_OUTAGE_S
        longest = _LONG_PAUSE_S if is_short else _LONGEST_PAUSE_S
        self._retry_at = now + wait + min(longest, self._pause) * (0.5 + self._uniform() / 2)
        self._pause = min(longest, self._pause * _GROWTH)

    def retry_now(self) -> None:
        """A person asks for an attempt at once."""
        self._retry_at = -math.inf
        self._pause = _FIRST_PAUSE_S

    def hold(self) -> None:
        """A person asks for no attempt before `release`; a caller that has a stream reports by `broken` that it is
        gone."""
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        self.retry_now()

    def retried(self, now: float) -> None:
        """A new stream has begun."""
        self._sent_bytes = self._probed_bytes = 0
        self._uploaded_by = -math.inf
        self._move(LinkEvent.RETRIED, now)

    def _move(self, event: LinkEvent, now: float) -> None:
        after = TRANSITIONS[self.state][event]
        if after is not self.state:
            self.state, self._since = after, now
            self._may_forgive = True


def _seconds_to_upload(size_bytes: int) -> float:
    return size_bytes / _SLOWEST_UPLOAD_BYTES_PER_S
