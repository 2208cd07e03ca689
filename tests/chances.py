"""Whether counts fit chances, and numbers a distribution. Every threshold is one that honest numbers pass all but once
in ten thousand tries, so tests fix their seeds.

Only statistics may live here; what is counted belongs to the tests.
"""

from collections.abc import Callable
from functools import cache
from math import inf, log, sqrt
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

FALSE_ALARM = 1e-4

_FEWEST = 5.0  # expected in a cell that is compared alone

DEVIATIONS = NormalDist().inv_cdf(1 - FALSE_ALARM / 2)
"""How many standard deviations a normal number may lie from its mean."""


def misfit(counts: ArrayLike, chances: ArrayLike) -> float:
    """Pearson's chi-square over its quantile: above 1 the counts do not fit. Rare cells are compared together; one
    that has no chance must be empty."""
    seen, chance = np.asarray(counts, float).ravel(), np.asarray(chances, float).ravel()
    if seen[chance == 0].any():
        return inf
    expected = chance / chance.sum() * seen.sum()
    rare = expected < _FEWEST
    cells = [*zip(seen[~rare], expected[~rare], strict=True)]
    if expected[rare].sum() >= _FEWEST:
        cells.append((seen[rare].sum(), expected[rare].sum()))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    return float(statistic / _chi_square_quantile(len(cells) - 1)) if len(cells) > 1 else 0.0


def share_is(hits: int, tries: int, chance: float) -> bool:
    """Whether so many hits fit a chance."""
    return abs(hits - tries * chance) <= DEVIATIONS * sqrt(tries * chance * (1 - chance)) + 1e-9


def farthest(numbers: NDArray[np.float64], distribution: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Kolmogorov's distance between numbers and a distribution function, over its quantile: above 1 they differ."""
    below = distribution(np.sort(numbers))
    steps = np.arange(len(numbers) + 1) / len(numbers)
    distance = max(np.abs(below - steps[:-1]).max(), np.abs(below - steps[1:]).max())
    return float(distance * sqrt(len(numbers)) / sqrt(log(2 / FALSE_ALARM) / 2))


@cache
def _chi_square_quantile(freedom: int) -> float:
    half = torch.tensor(freedom / 2, dtype=torch.float64)
    least, most = 0.0, 100.0 + 10.0 * freedom
    for _ in range(60):
        middle = (least + most) / 2
        beyond = float(torch.special.gammaincc(half, torch.tensor(middle / 2, dtype=torch.float64)))
        least, most = (middle, most) if beyond > FALSE_ALARM else (least, middle)
    return most
