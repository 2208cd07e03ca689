"""What a pass over so many tokens takes on this machine, as measured. Pure; seconds.

Passes are memory-bound for as long as their tokens come free, then compute-bound, and step where kernels change, so no
formula is assumed: sizes are kept in classes, each half as large again as the one before.
"""

import math
from bisect import bisect_left

_GAIN = 1 / 8
_CLASS = 1.5


class PassCost:
    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # by class

    def observe(self, tokens: int, seconds: float) -> None:
        size = _class_of(tokens)
        known = self._seconds.get(size)
        self._seconds[size] = seconds if known is None else known + _GAIN * (seconds - known)

    def estimate(self, tokens: int) -> float:
        """Between measured classes a straight line; beyond the largest, in proportion to tokens; 0 before the first."""
        if not self._seconds:
            return 0.0
        size = math.log(max(tokens, 1), _CLASS)
        known = sorted(self._seconds)
        place = bisect_left(known, size)
        if place == 0:
            return self._seconds[known[0]]
        below = known[place - 1]
        if place == len(known):
            # One class may be tried at the price of the last, so that it comes to be known.
            return self._seconds[below] * math.pow(_CLASS, max(0.0, size - below - 1))
        above = known[place]
        share = (size - below) / (above - below)
        return self._seconds[below] + share * (self._seconds[above] - self._seconds[below])


def _class_of(tokens: int) -> int:
    return round(math.log(max(tokens, 1), _CLASS))
