"""How long a pass takes on this machine, by its packed tokens and their context, as measured. Pure; seconds.

Passes are memory-bound while more tokens are free, then compute-bound, and step where kernels change. So all that is
assumed of tokens is that a wider pass takes no less time, and at most in proportion. Sizes are grouped in classes, each
1.5 times as large as the last. A class that was measured as expensive is avoided, so one bad sample would never be
corrected; therefore a class that is not seen fades towards the next narrower one, until it is tried again. What the
context adds is linear (`context_cost.py`).
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

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
    """What a pass computes. `positions`: the context positions whose K/V it reads, those before its tokens, of all its
    sessions. `pairs`: query-key pairs, each of its tokens with each of those positions of its session."""

    tokens: int
    positions: int = 0
    pairs: int = 0

    def __add__(self, other: "PassWork") -> "PassWork":
        return PassWork(self.tokens + other.tokens, self.positions + other.positions, self.pairs + other.pairs)


NO_WORK = PassWork(0)


@dataclass(frozen=True, slots=True)
class PassWorks:
    """What passes of several sizes over the same context positions compute: tokens and pairs of each."""

    tokens: NDArray[np.int64]
    positions: int
    pairs: NDArray[np.int64]


def sessions_work(sessions: Iterable[tuple[int, int]]) -> PassWork:
    """That of sessions with so many tokens behind so many context positions."""
    every = positions = pairs = 0
    for tokens, context in sessions:
        if tokens:
            every += tokens
            positions += context
            pairs += tokens * context
    return PassWork(every, positions, pairs)


@dataclass(frozen=True, slots=True)
class _Passes:
    """The passes of one class, in the mean: later ones count more."""

    tokens: float
    positions: float
    pairs: float
    seconds: float
    last: int  # the number of the latest


@dataclass(frozen=True, slots=True)
class _OfTokens:
    """What passes cost without their context, by class, narrow ones first."""

    tokens: Sequence[float] = ()
    seconds: Sequence[float] = ()

    def of(self, tokens: int, least: float) -> float:
        """Seconds of a pass over so many tokens; below the smallest class at least this part of it."""
        index = bisect_left(self.tokens, tokens)
        if index == 0:
            # One class below is assumed to be cheaper in proportion, so that it is tried.
            below = self.tokens[0] / math.sqrt(_CLASS)
            return self.seconds[0] * max(least, min(1.0, tokens / below))
        narrow, seconds = self.tokens[index - 1], self.seconds[index - 1]
        if index == len(self.tokens):
            # One class above is assumed to cost as much as the last, so that it is tried.
            return seconds * max(1.0, tokens / (_CLASS * narrow))
        return seconds + (tokens - narrow) / (self.tokens[index] - narrow) * (self.seconds[index] - seconds)


class PassCost:
    def __init__(self) -> None:
        self._context = ContextCost()
        self._seen: dict[int, _Passes] = {}  # by class
        self._passes = 0
        self._optimistic = _OfTokens()
        self._measured = _OfTokens()  # where nothing fades

    def observe(self, work: PassWork, seconds: float) -> None:
        size = _class_of(work.tokens)
        self._context.observe(size, work.tokens, work.positions, work.pairs, seconds)
        self._passes += 1
        mean, gain = _Passes(work.tokens, work.positions, work.pairs, seconds, self._passes), 1.0
        if size in self._seen:
            mean = self._seen[size]
            # What has faded counts for less, or an expensive class would be tried again and again.
            gain = 1 - (1 - _GAIN) * max(0.0, 2 * self._freshness(mean, self._passes - 1) - 1)
        self._seen[size] = _Passes(
            mean.tokens + gain * (work.tokens - mean.tokens),
            mean.positions + gain * (work.positions - mean.positions),
            mean.pairs + gain * (work.pairs - mean.pairs),
            mean.seconds + gain * (seconds - mean.seconds),
            self._passes,
        )
        self._optimistic, self._measured = self._of_tokens(fades=True), self._of_tokens(fades=False)

    def estimates(self, works: PassWorks) -> NDArray[np.float64]:
        """Seconds of each pass, optimistic where it has not been seen for a while, so that it is tried; 0 before the
        first pass. By tokens linear between measured classes, in proportion beyond the largest, at most one class less
        below the smallest."""
        if not self._optimistic.tokens:
            return np.zeros(len(works.tokens))
        of_tokens = [self._optimistic.of(tokens, 1 / _CLASS) for tokens in works.tokens.tolist()]
        seconds: NDArray[np.float64] = np.array(of_tokens) + self._context.seconds(works.positions, works.pairs)
        return seconds

    def measured(self, work: PassWork) -> float:
        """The same of one pass without optimism: classes as they were when they were last seen, the smallest below it
        too."""
        if not self._measured.tokens:
            return 0.0
        return self._measured.of(work.tokens, 1.0) + self._context.seconds(work.positions, work.pairs)

    def is_measured(self, tokens: int) -> bool:
        """Whether a pass of about so many tokens or fewer has been seen, or none at all: `measured` cannot know what
        passes cost that are narrower than all, and says too much where wide ones are slow."""
        return not self._seen or min(self._seen) <= _class_of(tokens)

    def _of_tokens(self, fades: bool) -> _OfTokens:
        """What the tokens of each class cost, made to grow with the class, and at most in proportion."""
        seen = [self._seen[size] for size in sorted(self._seen)]
        seconds: list[float] = []
        for index, each in enumerate(seen):
            own = max(_LEAST_OF_TOKENS * each.seconds, each.seconds - self._context.seconds(each.positions, each.pairs))
            if index:
                narrower = seconds[-1]
                own = min(own, narrower * each.tokens / seen[index - 1].tokens)
                own = narrower + (self._freshness(each, self._passes) if fades else 1.0) * (own - narrower)
            seconds.append(own)
        no_dearer_than_wider = list(accumulate(reversed(seconds), min))[::-1]
        return _OfTokens([each.tokens for each in seen], no_dearer_than_wider)

    def _freshness(self, passes: _Passes, latest: int) -> float:
        """How much a measured class still counts after pass number `latest`, 1 to 0."""
        return math.pow(_FADING, max(0, latest - passes.last - _PATIENCE))


def _class_of(tokens: int) -> int:
    return round(math.log(max(tokens, 1), _CLASS))
