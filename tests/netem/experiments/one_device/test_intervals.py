import numpy as np
import pytest

from netem.experiments.one_device.intervals import Bootstrap, figure, mean


def test_figures_are_sums_over_sums_and_means_count_categories_the_same():
    assert figure([(10, 1), (0, 4)]) == 2
    assert mean({"code": [(10, 1), (0, 4)], "chat": [(4, 1)]}) == 3


def test_without_spread_there_is_no_interval():
    spent = {"code": [(6, 2)] * 5, "chat": [(4, 4)] * 3}
    estimate = Bootstrap({"code": 5, "chat": 3}, seed=0).mean(spent)
    assert estimate.as_dict() == pytest.approx({"value": 2, "low": 2, "high": 2})
    assert str(estimate) == "2.00 (2.00-2.00)"


def test_an_interval_is_as_wide_as_theory_says():
    draw = np.random.default_rng(3)
    values = draw.normal(3.0, 1.0, 400)
    estimate = Bootstrap({"code": 400}, seed=0).category({"code": [(value, 1.0) for value in values]}, "code")
    half = 1.96 * values.std() / 20
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.02)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.02)


def test_a_ratio_is_paired_by_prompt():
    draw = np.random.default_rng(4)
    other = {"code": [(value, 1.0) for value in draw.uniform(1, 9, 30)]}
    ours = {"code": [(1.25 * gained, used) for gained, used in other["code"]]}
    bootstrap = Bootstrap({"code": 30}, seed=0)
    ratio = bootstrap.ratio(ours, other)
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert bootstrap.mean(ours).high > 1.1 * bootstrap.mean(ours).low


def test_answers_of_one_token_spend_nothing():
    nothing = {"code": [(0, 0), (0, 0)]}
    bootstrap = Bootstrap({"code": 2}, seed=0)
    assert bootstrap.mean(nothing).as_dict() == {"value": 0, "low": 0, "high": 0}
    assert bootstrap.ratio({"code": [(4, 2), (2, 1)]}, nothing).value == 0
