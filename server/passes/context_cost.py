"""What the context adds to the time of a pass on this machine, as measured: seconds for each position of K/V that is
read, and for each score of a token with such a position. Pure.

May know how much passes computed and how long they took; not what packed tokens cost, nor who scheduled them.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_SCORES_A_READ = 16.0
"""Reading a position takes about as long as scoring it this many times: 16 in float32 on one CPU core, about 40 on an
H100 with four query heads a key. Divides the two where all passes have them in one proportion."""

_DOUBLING = 4096.0
"""What is expected before it is measured: a context of so many positions about doubles the time of a pass. Noise has to
be outweighed by this much, so that a few passes that differ little say little."""

_LEAST_PASSES = 8
_HALVED_AFTER = 4096
"""Passes after which all sums are halved, so that later ones count more."""

_KEPT_MEANS = 256  # passes over which the mean of a class extends
_TOKENS, _READ, _SCORES = range(3)
_EXACT = 1e-12

_Vector = NDArray[np.float64]

Scores = TypeVar("Scores", float, NDArray[Any])


@dataclass(slots=True)
class _Mean:
    """The mean of the passes of one class."""

    passes: int
    work: _Vector
    seconds: float


class ContextCost:
    """A regression of a pass's time on its context within classes of passes with about as many tokens (fixed effects:
    the means of classes are free), so that it need not know what tokens cost. Coefficients are never negative, and a
    ridge holds them at 0 where passes are alike. A pass that took more than twice as long as its class counts as twice
    as long."""

    def __init__(self) -> None:
        self._means: dict[int, _Mean] = {}
        self._products = np.zeros((3, 3))  # of deviations from the class: tokens, positions read, scores
        self._with_seconds = np.zeros(3)
        self._squared_seconds = 0.0
        self._passes = 0
        self.seconds_per_read = 0.0
        self.seconds_per_score = 0.0

    def observe(self, size: int, tokens: int, read: int, scores: int, seconds: float) -> None:
        """A pass of class `size` over so many tokens took `seconds`."""
        work = np.array([tokens, read, scores / _SCORES_A_READ], dtype=np.float64)
        mean = self._means.setdefault(size, _Mean(0, work, seconds))
        off, late = work - mean.work, min(seconds - mean.seconds, mean.seconds)
        share = mean.passes / (mean.passes + 1)
        self._products += share * np.outer(off, off)
        self._with_seconds += share * off * late
        self._squared_seconds += share * late * late
        mean.passes = min(mean.passes + 1, _KEPT_MEANS)
        mean.work = mean.work + off / mean.passes
        mean.seconds += late / mean.passes
        self._passes += 1
        if self._passes == _HALVED_AFTER:
            self._passes //= 2
            self._products /= 2
            self._with_seconds /= 2
            self._squared_seconds /= 2
        if self._passes >= _LEAST_PASSES:
            self._solve()

    def seconds(self, read: float, scores: Scores) -> Scores:
        """Of one pass, or of several with so many scores each."""
        return self.seconds_per_read * read + self.seconds_per_score * scores

    def _solve(self) -> None:
        """Ridge regression, without what would be negative."""
        fastest = min(mean.seconds for mean in self._means.values())
        expected = (max(fastest, _EXACT) / _DOUBLING) ** 2
        terms = [term for term in range(3) if self._products[term, term] > 0]
        found = self._fit(terms, 0.0)
        noise = self._noise(found)
        found = self._fit(terms, noise / expected)
        while any(found[term] < 0 for term in (_READ, _SCORES)):
            terms = [term for term in terms if term == _TOKENS or found[term] > 0]
            found = self._fit(terms, noise / expected)
        self.seconds_per_read, self.seconds_per_score = float(found[_READ]), float(found[_SCORES]) / _SCORES_A_READ

    def _fit(self, terms: list[int], ridge: float) -> _Vector:
        found = np.zeros(3)
        if terms:
            products = self._products[np.ix_(terms, terms)]
            largest = float(np.trace(products))
            held = [0.0 if term == _TOKENS else ridge for term in terms]
            found[terms] = np.linalg.solve(
                products + np.diag(held) + _EXACT * largest * np.eye(len(terms)), self._with_seconds[terms]
            )
        return found

    def _noise(self, found: _Vector) -> float:
        """The variance that these coefficients leave, in square seconds."""
        explained = 2 * found @ self._with_seconds - found @ self._products @ found
        return max(0.0, self._squared_seconds - float(explained)) / self._passes
