"""The response time of a client, and how far an answer may run ahead of its acknowledgements.

The response time is measured from a commit to the first message that acknowledges it: one round trip plus draft time,
smoothed as TCP smooths its retransmission timer (RFC 6298). Times in seconds; the clock is the caller's. It may not
know sessions or trees.
"""

import math
from collections import deque

_INITIAL = 0.2
_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 2.0

_FARTHEST = 1.0
"""Seconds until an acknowledgement: assumed of a client that has not answered yet, and the most that is believed of any
client, so that none can make the server run further ahead."""

_ROUND_TRIPS_AHEAD = 1.5
"""So many round trips' tokens, at the speed of the answer, may be ahead where that is more than the operator's
run-ahead."""


class ResponseTime:
    def __init__(self) -> None:
        self._mean: float | None = None
        self._deviation = 0.0
        self._awaited: deque[tuple[int, float]] = deque()

    def committed(self, frontier: int, now: float) -> None:
        self._awaited.append((frontier, now))

    def acknowledged(self, frontier: int, now: float) -> None:
        """The client has shown that it knows `frontier` tokens; the newest commit it covers gives the sample."""
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
        """Seconds within which the answer to a commit should have come; `unknown` before there was one."""
        return unknown if self._mean is None else self._mean + _DEVIATIONS * self._deviation


def most_ahead(run_ahead: int, speed: float, response_time: ResponseTime) -> float:
    """Tokens that may be committed ahead of the client's acknowledgements: at least `run_ahead`, and enough that the
    answer does not wait for a client that is merely far away. `speed` in tokens per second, infinite while unknown."""
    if speed == math.inf:
        return run_ahead
    away = min(_FARTHEST, response_time.allowance(unknown=_FARTHEST))
    return max(run_ahead, _ROUND_TRIPS_AHEAD * away * speed)
