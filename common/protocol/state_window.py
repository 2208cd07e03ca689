"""How much draft state may be in flight on one stream. Pure: times are arguments, in seconds on any steady clock.

Tokens share the stream with draft state, so state that queues in the network delays them. The window grows while round
trips are as short as they can be, and shrinks to half a bandwidth-delay product once they show a queue: a path is
known by its delivery rate and its base round trip, as in BBR (Cardwell et al. 2016), but the delay is what is bounded,
as in LEDBAT (RFC 6817).

Mobile links jitter by as much as a round trip, so one number tells little. A round is the time from one decision to the
first acknowledgement of a frame sent after it, and its least round trip one observation. The base is the least median
of a few of them, not the one lucky draw; a queue is what exceeds it in each of the last rounds, the more of them the
more they jitter; and what may be jitter is not taken for a queue.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

FIRST_WINDOW = 16 * 1024
LEAST_WINDOW = 1024
MOST_WINDOW = 256 * 1024
_FRAMES = 4  # of a full window, so that acknowledgements come evenly

_GROWTH = 1.2  # for a round whose window was used and that saw no queue
_GOOD = 0.15  # base round trips of queue up to which the window grows
_BAD = 0.3  # and from which it shrinks
_SHARE = 0.5  # of a bandwidth-delay product, to which it shrinks

_MEDIAN_ROUNDS = 5
_RATE_ROUNDS = 8
_BASE_SECONDS = 10.0  # for once or twice as long is a base remembered: paths change
_JITTER_GAIN = 1 / 8
_MOST_JITTER = 0.4  # in base round trips
_PATIENCE = 6.0  # rounds that must agree on a queue, for each base round trip of jitter


@dataclass(slots=True)
class _Flight:
    """A frame on its way, and what had been delivered when it left."""

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
    """What the last rounds tell of the way to the client and back."""

    jitter: float = 0.0
    _trips: deque[float] = field(default_factory=lambda: deque(maxlen=_MEDIAN_ROUNDS))
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_RATE_ROUNDS))
    _bases: tuple[float, float] = (math.inf, math.inf)  # of this stretch of time and of the one before
    _since: float = 0.0

    def observe(self, past: _Round, now: float, *, steady: bool) -> None:
        """`steady` where the window had not just shrunk, so that a change of the round trip is the path's own."""
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
        return min(self.jitter, _MOST_JITTER * self.base)

    @property
    def bandwidth_delay(self) -> float:
        return max(self._rates) * (self.base + self.likely_jitter)

    @property
    def witnesses(self) -> int:
        """Rounds that must agree on a queue."""
        return min(_MEDIAN_ROUNDS, 1 + int(_PATIENCE * self.likely_jitter / self.base))

    @property
    def queue(self) -> float:
        """Seconds of the last round trips that no jitter explains, in base round trips."""
        least = min(list(self._trips)[-self.witnesses :])
        return max(0.0, least - self.base - self.likely_jitter / 2) / self.base


class StateWindow:
    """Sizes in bytes."""

    def __init__(self) -> None:
        self.size = float(FIRST_WINDOW)
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
        """The oldest frame in flight has arrived, and word of it just now."""
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
        """Frames in flight may be read late, so their round trips tell nothing."""
        for flight in self._flights:
            flight.timed = False

    def _decide(self, now: float) -> None:
        path, past, self._round = self._path, self._round, _Round(now)
        path.observe(past, now, steady=self._rounds_since_shrinking > 0)
        self._rounds_since_shrinking += 1
        if path.queue > _BAD:
            if self._rounds_since_shrinking > path.witnesses:
                self._rounds_since_shrinking = 0
                self.size = min(self.size, _SHARE * path.bandwidth_delay)
        elif past.filled and path.queue <= _GOOD:
            self.size *= _GROWTH
        self.size = max(LEAST_WINDOW, min(MOST_WINDOW, self.size))
