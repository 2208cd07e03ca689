"""Tests of `tests.chances`: it passes what fits and fails what is slightly off."""

import numpy as np
import pytest

from tests.chances import _chi_square_quantile, farthest, misfit, share_is

CHANCES = np.array([0.4, 0.3, 0.2, 0.0995, 0.0005, 0.0])


# From published tables of the chi-square distribution.
@pytest.mark.parametrize(("freedom", "quantile"), [(1, 15.137), (2, 18.421), (5, 25.745), (15, 44.263)])
def test_quantiles_are_those_of_the_tables(freedom, quantile):
    assert _chi_square_quantile(freedom) == pytest.approx(quantile, abs=0.001)


def test_counts_that_fit_pass_and_counts_a_little_off_do_not():
    draws = np.random.default_rng(0)
    assert misfit(draws.multinomial(20_000, CHANCES), CHANCES) < 1
    off = CHANCES + np.array([0.03, -0.03, 0, 0, 0, 0])
    assert misfit(draws.multinomial(20_000, off), CHANCES) > 1


def test_what_has_no_chance_must_not_happen_once():
    assert misfit([40, 30, 20, 10, 0, 1], CHANCES) == np.inf


def test_shares_and_distributions_are_told_apart():
    assert share_is(5_050, 10_000, 0.5)
    assert not share_is(5_300, 10_000, 0.5)
    numbers = np.random.default_rng(0).random(20_000)
    assert farthest(numbers, lambda x: x) < 1
    assert farthest(numbers**1.1, lambda x: x) > 1
