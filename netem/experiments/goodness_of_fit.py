"""Pearson's chi-square test of counts against the probabilities of a distribution.

Only statistics may live here; what is counted belongs to the experiments and the tests.
"""

from math import inf

import numpy as np
import torch
from numpy.typing import ArrayLike

_FEWEST = 5.0  # expected counts in a cell that is compared alone


def chi_square(counts: ArrayLike, probabilities: ArrayLike) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom.

    Rare cells are pooled. A cell of probability 0 must be empty, else the statistic is infinite.
    """
    seen, expected_shares = np.asarray(counts, float).ravel(), np.asarray(probabilities, float).ravel()
    expected = expected_shares / expected_shares.sum() * seen.sum()
    rare = expected < _FEWEST
    cells = [*zip(seen[~rare], expected[~rare], strict=True)]
    if expected[rare].sum() >= _FEWEST:
        cells.append((seen[rare].sum(), expected[rare].sum()))
    if seen[expected_shares == 0].any():
        return inf, max(1, len(cells) - 1)
    return float(sum((count - mean) ** 2 / mean for count, mean in cells)), len(cells) - 1


def p_value(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """The probability that counts from this distribution deviate from it at least as much."""
    statistic, freedom = chi_square(counts, probabilities)
    return beyond(statistic, freedom) if freedom else 1.0


def beyond(statistic: float, freedom: int) -> float:
    """The probability that a chi-square variable with so many degrees of freedom is larger."""
    if statistic == inf:
        return 0.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))
