"""Accept lengths and speeds as ratios of sums, with bootstrap intervals over prompts. Pure arithmetic.

A category's figure is the sum of gains over the sum of costs, over its prompts; the mean weighs all categories equally.
Prompts are resampled within their category (Efron 1979), in the same way for every system, so that ratios of two
systems are paired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 2000
_LIMITS = (2.5, 97.5)  # percentiles

Spent = Mapping[str, Sequence[tuple[float, float]]]
"""By category, the gain and the cost of each prompt; the same prompts in the same order for every system."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"

    def as_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


class Bootstrap:
    """One set of resamples, for `sizes` prompts in each category."""

    def __init__(self, sizes: Mapping[str, int], seed: int):
        random = np.random.default_rng(seed)
        self._counts = {
            name: random.multinomial(size, np.full(size, 1 / size), RESAMPLES).astype(float)
            for name, size in sizes.items()
        }

    def mean(self, spent: Spent) -> Estimate:
        """The mean of the categories' figures."""
        return _estimate(mean(spent), self._means(spent))

    def category(self, spent: Spent, name: str) -> Estimate:
        return _estimate(figure(spent[name]), self._figures(name, spent[name]))

    def ratio(self, spent: Spent, other: Spent) -> Estimate:
        """The ratio of the mean of `spent` to that of `other`, on the same resamples."""
        return _estimate(_share(mean(spent), mean(other)), _share(self._means(spent), self._means(other)))

    def _means(self, spent: Spent) -> np.ndarray:
        means: np.ndarray = np.mean([self._figures(name, pairs) for name, pairs in spent.items()], axis=0)
        return means

    def _figures(self, name: str, pairs: Sequence[tuple[float, float]]) -> np.ndarray:
        gained, used = (self._counts[name] @ np.array(pairs, dtype=float)).T
        figures: np.ndarray = np.divide(gained, used, out=np.zeros_like(gained), where=used > 0)
        return figures


def figure(pairs: Sequence[tuple[float, float]]) -> float:
    """The sum of gains over the sum of costs; 0 where there is no cost, as with answers of one token."""
    spent = sum(used for _, used in pairs)
    return sum(gained for gained, _ in pairs) / spent if spent else 0.0


def mean(spent: Spent) -> float:
    return float(np.mean([figure(pairs) for pairs in spent.values()]))


def _share(one: Any, other: Any) -> Any:
    """The quotient; 0 where the divisor is 0."""
    return np.divide(one, other, out=np.zeros_like(one, dtype=float), where=np.asarray(other) > 0)


def _estimate(value: Any, drawn: np.ndarray) -> Estimate:
    low, high = np.percentile(drawn, _LIMITS)
    return Estimate(float(value), float(low), float(high))
