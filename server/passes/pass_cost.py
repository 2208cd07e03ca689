"""How long a pass over a number of tokens takes on this machine, as measured. Pure; seconds.

Passes are memory-bound while more tokens are free, then compute-bound, and step where kernels change. So the only
assumption is that a wider pass takes no less time, and at most in proportion. Sizes are grouped in classes, each 1.5
times as large as the last. A class that was measured as expensive is avoided, so one bad sample would never be
corrected; therefore a class that is not seen fades towards the next narrower one, until it is tried again.
"""

import math
from bisect import bisect_left
from itertools import accumulate, pairwise

_GAIN = 1 / 8
_CLASS = 1.5
_PATIENCE = 8  # passes of other classes before a class fades; a busy server has about as many between two prompts
_FADING = 0.9
"""The part of the difference to the next narrower class that remains after each further pass of another class."""


class PassCost:
    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by class, when it was last seen
        self._last_seen: dict[int, int] = {}  # by class, the number of its last pass
        self._passes = 0
        self._believed: dict[int, float] = {}  # by class, narrow ones first

    def observe(self, tokens: int, seconds: float) -> None:
        self._passes += 1
        size = _class_of(tokens)
        believed = self._believed.get(size, seconds)
        # A faded value counts for less, or an expensive class would be tried again and again.
        weight = (1 - _GAIN) * self._freshness(size, self._passes - 1) if size in self._believed else 0.0
        self._seconds[size] = weight * believed + (1 - weight) * seconds
        self._last_seen[size] = self._passes
        self._believed = self._believe()

    def estimate(self, tokens: int) -> float:
        """Seconds of a pass over `tokens` tokens: linear between measured classes, in proportion beyond the largest, at
        most one class less below the smallest; 0 before the first pass."""
        if not self._believed:
            return 0.0
        size = math.log(max(tokens, 1), _CLASS)
        known = list(self._believed)
        place = bisect_left(known, size)
        if place == 0:
            # One class below is assumed to be cheaper in proportion, so that it is tried.
            return self._believed[known[0]] * math.pow(_CLASS, max(-1.0, min(0.0, size - known[0] + 0.5)))
        below = known[place - 1]
        if place == len(known):
            # One class above is assumed to cost as much as the last, so that it is tried.
            return self._believed[below] * math.pow(_CLASS, max(0.0, size - below - 1))
        above = known[place]
        share = (size - below) / (above - below)
        return self._believed[below] + share * (self._believed[above] - self._believed[below])

    def _believe(self) -> dict[int, float]:
        sizes = sorted(self._seconds)
        seconds = [self._seconds[sizes[0]]]
        for below, size in pairwise(sizes):
            narrower = seconds[-1]
            measured = min(self._seconds[size], narrower * math.pow(_CLASS, size - below))
            seconds.append(narrower + self._freshness(size, self._passes) * (measured - narrower))
        no_dearer_than_wider = list(accumulate(reversed(seconds), min))[::-1]
        return dict(zip(sizes, no_dearer_than_wider, strict=True))

    def _freshness(self, size: int, latest: int) -> float:
        """How much a measured class still counts after pass number `latest`, 1 to 0."""
        return math.pow(_FADING, max(0, latest - self._last_seen[size] - _PATIENCE))


def _class_of(tokens: int) -> int:
    return round(math.log(max(tokens, 1), _CLASS))
