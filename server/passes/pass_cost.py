"""How long a pass takes on this machine, by its packed tokens and their context, as measured. Pure; seconds.

Passes are memory-bound while more tokens are free, then compute-bound, and step where kernels change. So all that is
assumed of tokens is that a wider pass takes no less time, and at most in proportion. Sizes are grouped in classes, each
1.5 times as large as the last. A class that was measured as expensive is avoided, so one bad sample would never be
corrected; therefore a class that is not seen fades towards the next narrower one, until it is tried again. What the
context adds is linear (`context_cost.py`).
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise

from server.passes.context_cost import ContextCost

_GAIN = 1 / 8
_CLASS = 1.5
_PATIENCE = 8  # passes of other classes before a class fades; a busy server has about as many between two prompts
_FADING = 0.9
"""The part of the difference to the next narrower class that remains after each further pass of another class."""

_LEAST_OF_TOKENS = 0.05
"""At least this part of a pass is counted for its tokens, however long its context."""


@dataclass(frozen=True, slots=True)
class PassWork:
    """What a pass computes. `read`: the positions of K/V before its tokens, of all its sessions. `scores`: those of
    each token with the positions before its session's tokens, of all tokens."""

    tokens: int
    read: int = 0
    scores: int = 0

    def __add__(self, other: "PassWork") -> "PassWork":
        return PassWork(self.tokens + other.tokens, self.read + other.read, self.scores + other.scores)


NO_WORK = PassWork(0)


def session_work(tokens: int, context: int) -> PassWork:
    """That of one session with `tokens` tokens behind `context` positions."""
    return PassWork(tokens, context, tokens * context) if tokens else NO_WORK


class PassCost:
    def __init__(self) -> None:
        self._context = ContextCost()
        self._seconds: dict[int, float] = {}  # of tokens alone: by class, when it was last seen
        self._last_seen: dict[int, int] = {}  # by class, the number of its last pass
        self._passes = 0
        self._believed: dict[int, float] = {}  # by class, narrow ones first
        self._measured: dict[int, float] = {}  # the same, where nothing fades

    def observe(self, work: PassWork, seconds: float) -> None:
        self._passes += 1
        size = _class_of(work.tokens)
        self._context.observe(size, work.tokens, work.read, work.scores, seconds)
        of_tokens = max(_LEAST_OF_TOKENS * seconds, seconds - self._context.seconds(work.read, work.scores))
        believed = self._believed.get(size, of_tokens)
        # A faded value counts for less, or an expensive class would be tried again and again.
        weight = (1 - _GAIN) * self._freshness(size, self._passes - 1) if size in self._believed else 0.0
        self._seconds[size] = weight * believed + (1 - weight) * of_tokens
        self._last_seen[size] = self._passes
        self._believed = self._ordered(fades=True)
        self._measured = self._ordered(fades=False)

    def estimate(self, work: PassWork) -> float:
        """Seconds of a pass, hopeful where it has not been seen for a while, so that it is tried; 0 before the first
        pass. By tokens linear between measured classes, in proportion beyond the largest, at most one class less below
        the smallest."""
        return self._of(self._believed, work)

    def measured(self, work: PassWork) -> float:
        """The same without hope: as it was when it was last seen."""
        return self._of(self._measured, work)

    def _of(self, classes: dict[int, float], work: PassWork) -> float:
        if not classes:
            return 0.0
        return _of_tokens(classes, max(work.tokens, 1)) + self._context.seconds(work.read, work.scores)

    def _ordered(self, fades: bool) -> dict[int, float]:
        """The cost of each class, made to grow with the class."""
        sizes = sorted(self._seconds)
        seconds = [self._seconds[sizes[0]]]
        for below, size in pairwise(sizes):
            narrower = seconds[-1]
            measured = min(self._seconds[size], narrower * math.pow(_CLASS, size - below))
            freshness = self._freshness(size, self._passes) if fades else 1.0
            seconds.append(narrower + freshness * (measured - narrower))
        no_dearer_than_wider = list(accumulate(reversed(seconds), min))[::-1]
        return dict(zip(sizes, no_dearer_than_wider, strict=True))

    def _freshness(self, size: int, latest: int) -> float:
        """How much a measured class still counts after pass number `latest`, 1 to 0."""
        return math.pow(_FADING, max(0, latest - self._last_seen[size] - _PATIENCE))


def _of_tokens(classes: dict[int, float], tokens: int) -> float:
    """Seconds of a pass over so many tokens, from those of classes."""
    size = math.log(tokens, _CLASS)
    known = list(classes)
    place = bisect_left(known, size)
    if place == 0:
        # One class below is assumed to be cheaper in proportion, so that it is tried.
        return classes[known[0]] * math.pow(_CLASS, max(-1.0, min(0.0, size - known[0] + 0.5)))
    below = known[place - 1]
    if place == len(known):
        # One class above is assumed to cost as much as the last, so that it is tried.
        return classes[below] * math.pow(_CLASS, max(0.0, size - below - 1))
    above = known[place]
    narrow, wide = math.pow(_CLASS, below), math.pow(_CLASS, above)
    return classes[below] + (tokens - narrow) / (wide - narrow) * (classes[above] - classes[below])


def _class_of(tokens: int) -> int:
    return round(math.log(max(tokens, 1), _CLASS))
