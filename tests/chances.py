"""Goodness of fit: of counts to probabilities, and of numbers to a distribution. Honest numbers pass every threshold
all but once in ten thousand tries, so tests fix their seeds.

Only statistics may live here; what is counted belongs to the tests.
"""

from collections.abc import Callable
from functools import cache
from math import log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netem.experiments.goodness_of_fit import beyond, chi_square

FALSE_ALARM = 1e-4

DEVIATIONS = NormalDist().inv_cdf(1 - FALSE_ALARM / 2)
"""How many standard deviations a normal number may lie from its mean."""


def misfit(counts: ArrayLike, chances: ArrayLike) -> float:
    """Pearson's chi-square over its quantile: above 1 the counts do not fit. Rare cells are pooled; one of probability
    zero must be empty."""
    statistic, freedom = chi_square(counts, chances)
    return statistic / _chi_square_quantile(freedom) if freedom else 0.0


def share_is(hits: int, tries: int, chance: float) -> bool:
    """Whether this many hits fit a probability."""
    return abs(hits - tries * chance) <= DEVIATIONS * sqrt(tries * chance * (1 - chance)) + 1e-9


def farthest(numbers: NDArray[np.float64], distribution: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Kolmogorov's distance between numbers and a distribution function, over its quantile: above 1 they differ."""
    below = distribution(np.sort(numbers))
    steps = np.arange(len(numbers) + 1) / len(numbers)
    distance = max(np.abs(below - steps[:-1]).max(), np.abs(below - steps[1:]).max())
    return float(distance * sqrt(len(numbers)) / sqrt(log(2 / FALSE_ALARM) / 2))


@cache
def _chi_square_quantile(freedom: int) -> float:
    least, most = 0.0, 100.0 + 10.0 * freedom
    for _ in range(60):
        middle = (least + most) / 2
        least, most = (middle, most) if beyond(middle, freedom) > FALSE_ALARM else (least, middle)
    return most
