"""What a pass over so many tokens takes on this machine, as measured. Pure; seconds.

Passes are memory-bound for as long as their tokens come free, then compute-bound, and step where kernels change, so no
formula is assumed but that a wider pass takes no less, and at most in proportion: sizes are kept in classes, each half
as large again as the one before. Who finds a class dear avoids it, and nothing would ever show that it was dear only
once; hence a class that is not seen fades towards the next narrower one, until it is tried again.
"""

import math
from bisect import bisect_left
from itertools import accumulate, pairwise

_GAIN = 1 / 8
_CLASS = 1.5
_PATIENCE = 8  # passes of other classes before a class fades, as between the prompts of a busy server
_FADING = 0.9
"""What a pass of another class then leaves of the difference between a class and the next narrower one."""


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
        # What has faded counts for less, or a class that is dear would be tried again and again.
        weight = (1 - _GAIN) * self._freshness(size, self._passes - 1) if size in self._believed else 0.0
        self._seconds[size] = weight * believed + (1 - weight) * seconds
        self._last_seen[size] = self._passes
        self._believed = self._believe()

    def estimate(self, tokens: int) -> float:
        """Between measured classes a straight line; beyond the largest, in proportion to tokens; below the smallest a
        class less; 0 before the first."""
        if not self._believed:
            return 0.0
        size = math.log(max(tokens, 1), _CLASS)
        known = list(self._believed)
        place = bisect_left(known, size)
        if place == 0:
            # One class may be tried in the hope that it is as much cheaper.
            return self._believed[known[0]] * math.pow(_CLASS, max(-1.0, min(0.0, size - known[0] + 0.5)))
        below = known[place - 1]
        if place == len(known):
            # One class may be tried at the price of the last, so that it comes to be known.
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
        """Of what is known of a class, once pass number `latest` is over."""
        return math.pow(_FADING, max(0, latest - self._last_seen[size] - _PATIENCE))


def _class_of(tokens: int) -> int:
    return round(math.log(max(tokens, 1), _CLASS))
