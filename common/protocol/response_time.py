"""The time from a Commit to the client's first message that acknowledges it: one round trip plus draft time.

Smoothed as TCP smooths its retransmission timer (RFC 6298). Times in seconds; the clock is the caller's.
"""

import math
from collections import deque

_INITIAL = 0.2
_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 2.0

_MAX_ACK_S = 1.0
"""Until an acknowledgement from a client that is merely far away: believed of one that has not answered yet, and the
most that a client can make the server believe."""

_MAX_ALLOWANCE_S = 2.0
"""More than a first response over a geostationary satellite is allowed. Without a bound, one late acknowledgement would
let an answer that waits for its client keep its place for minutes."""

_ROUND_TRIPS_AHEAD = 1.5
"""Of tokens at the speed of the answer, where that is more than the operator's run-ahead."""


class ResponseTime:
    def __init__(self) -> None:
        self._mean: float | None = None
        self._deviation = 0.0
        self._awaited: deque[tuple[int, float]] = deque()

    def committed(self, frontier: int, now: float) -> None:
        self._awaited.append((frontier, now))

    def acknowledged(self, frontier: int, now: float) -> None:
        """A frame shows that the client knows `frontier` tokens; the newest commit that it covers gives the sample."""
        sample = None
        while self._awaited and self._awaited[0][0] <= frontier:
            sample = now - self._awaited.popleft()[1]
        if sample is not None:
            self.observe(sample)

    def observe(self, sample: float) -> None:
        if self._mean is None:
            self._mean, self._deviation = sample, sample / 2
            return
        self._deviation += _DEVIATION_GAIN * (abs(sample - self._mean) - self._deviation)
        self._mean += _GAIN * (sample - self._mean)

    @property
    def is_unknown(self) -> bool:
        return self._mean is None

    def restart(self) -> None:
        """Forgets unanswered commits, for a new stream or turn; what was measured stays."""
        self._awaited.clear()

    def allowance(self, unknown: float = _INITIAL) -> float:
        """Seconds within which a response to a commit should come; `unknown` before the first sample."""
        if self._mean is None:
            return unknown
        return min(_MAX_ALLOWANCE_S, self._mean + _DEVIATIONS * self._deviation)


def max_run_ahead(run_ahead: int, tokens_per_s: float, response_time: ResponseTime) -> float:
    """How many tokens an answer may run ahead of its client's acknowledgements, so that it never waits for a client
    that is merely far away. `tokens_per_s` is infinite until it is known."""
    if tokens_per_s == math.inf:
        return run_ahead
    ack_s = min(_MAX_ACK_S, response_time.allowance(unknown=_MAX_ACK_S))
    return max(run_ahead, _ROUND_TRIPS_AHEAD * ack_s * tokens_per_s)
