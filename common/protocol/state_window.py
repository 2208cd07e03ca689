"""Congestion window of draft state: how many bytes may be in flight on one stream. Pure: times are arguments, in
seconds on any steady clock.

Tokens share the stream with draft state, so state that queues in the network delays them. The window grows while round
trips are at their minimum, and shrinks to half a bandwidth-delay product once they show a queue. The path is modelled
by its delivery rate and its base round trip, as in BBR (Cardwell et al. 2016), but the delay is bounded, as in LEDBAT
(RFC 6817).

Mobile links jitter by as much as a round trip, so a single sample says little. A round lasts from one decision to the
first acknowledgement of a frame sent after it; its shortest round trip is one observation. The base is the lowest
median of a few observations, not the shortest one. A queue is what exceeds the base in each of the last rounds; the
more jitter, the more rounds must agree. What may be jitter does not count as a queue.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

FIRST_WINDOW_BYTES = 16 * 1024
MIN_WINDOW_BYTES = 1024
MAX_WINDOW_BYTES = 256 * 1024
_FRAMES = 4  # in a full window, so that acknowledgements come evenly

_GROWTH = 1.2  # for a round whose window was used and that saw no queue
_GOOD = 0.15  # base round trips of queue up to which the window grows
_BAD = 0.3  # and from which it shrinks
_SHARE = 0.5  # of a bandwidth-delay product, to which it shrinks

_MEDIAN_ROUNDS = 5
_RATE_ROUNDS = 8
_BASE_SECONDS = 10.0  # a base is valid for one to two times as long, because paths change
_JITTER_GAIN = 1 / 8
_MAX_JITTER = 0.4  # in base round trips
_PATIENCE = 6.0  # rounds that must agree on a queue, for each base round trip of jitter


@dataclass(slots=True)
class _Flight:
    """A frame in flight, and the bytes that had been delivered when it left."""

    size: int
    left: float
    delivered: int
    fills: bool  # the window was at least half full with it
    timed: bool = True


@dataclass(slots=True)
class _Round:
    began: float
    trip: float = math.inf  # the least
    rate: float = 0.0  # the highest, in bytes per second
    filled: bool = False


@dataclass(slots=True)
class _Path:
    """The estimates of the path to the client and back, from the last rounds."""

    jitter: float = 0.0
    _trips: deque[float] = field(default_factory=lambda: deque(maxlen=_MEDIAN_ROUNDS))
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_RATE_ROUNDS))
    _bases: tuple[float, float] = (math.inf, math.inf)  # of this stretch of time and of the one before
    _since: float = 0.0

    def observe(self, past: _Round, now: float, *, steady: bool) -> None:
        """`steady`: the window had not just shrunk, so that a change of the round trip comes from the path."""
        if self._trips and steady:
            self.jitter += _JITTER_GAIN * (abs(past.trip - self._trips[-1]) - self.jitter)
        first_median = len(self._trips) == _MEDIAN_ROUNDS - 1
        self._trips.append(past.trip)
        self._rates.append(past.rate)
        usual = median(self._trips)
        if first_median:
            self._bases, self._since = (usual, usual), now
        elif now - self._since > _BASE_SECONDS:
            self._bases, self._since = (usual, self._bases[0]), now
        self._bases = (min(self._bases[0], usual), self._bases[1])

    @property
    def base(self) -> float:
        return min(self._bases)

    @property
    def likely_jitter(self) -> float:
        return min(self.jitter, _MAX_JITTER * self.base)

    @property
    def bandwidth_delay(self) -> float:
        return max(self._rates) * (self.base + self.likely_jitter)

    @property
    def agreeing_rounds(self) -> int:
        """The number of last rounds that must agree on a queue."""
        return min(_MEDIAN_ROUNDS, 1 + int(_PATIENCE * self.likely_jitter / self.base))

    @property
    def queue(self) -> float:
        """The part of the last round trips that jitter does not explain, in base round trips."""
        least = min(list(self._trips)[-self.agreeing_rounds :])
        return max(0.0, least - self.base - self.likely_jitter / 2) / self.base


class StateWindow:
    """Sizes in bytes."""

    def __init__(self) -> None:
        self.size = float(FIRST_WINDOW_BYTES)
        self.in_flight = 0
        self._flights: deque[_Flight] = deque()
        self._delivered = 0
        self._path = _Path()
        self._round = _Round(-math.inf)
        self._rounds_since_shrinking = 1

    @property
    def room(self) -> int:
        """Bytes that may leave now; negative where the window has shrunk below what is in flight."""
        return int(self.size) - self.in_flight

    @property
    def frame(self) -> int:
        """The longest frame that suits the window."""
        return int(self.size) // _FRAMES

    def sent(self, size: int, now: float) -> None:
        self.in_flight += size
        self._flights.append(_Flight(size, now, self._delivered, self.in_flight >= self.size / 2))

    def acknowledged(self, now: float) -> None:
        """The acknowledgement of the oldest frame in flight has arrived."""
        flight = self._flights.popleft()
        self.in_flight -= flight.size
        self._delivered += flight.size
        trip = now - flight.left
        if not flight.timed or trip <= 0:
            return
        self._round.trip = min(self._round.trip, trip)
        self._round.rate = max(self._round.rate, (self._delivered - flight.delivered) / trip)
        self._round.filled |= flight.fills
        if flight.left >= self._round.began:
            self._decide(now)

    def overtake(self) -> None:
        """Frames in flight may be read late, so that their round trips are no samples."""
        for flight in self._flights:
            flight.timed = False

    def _decide(self, now: float) -> None:
        path, past, self._round = self._path, self._round, _Round(now)
        path.observe(past, now, steady=self._rounds_since_shrinking > 0)
        self._rounds_since_shrinking += 1
        if path.queue > _BAD:
            if self._rounds_since_shrinking > path.agreeing_rounds:
                self._rounds_since_shrinking = 0
                self.size = min(self.size, _SHARE * path.bandwidth_delay)
        elif past.filled and path.queue <= _GOOD:
            self.size *= _GROWTH
        self.size = max(MIN_WINDOW_BYTES, min(MAX_WINDOW_BYTES, self.size))
