"""server.passes.pass_cost: costs within the measured widths, between them and beyond them."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.passes.pass_cost import PassCost, PassWork, PassWorks, sessions_work

CLASS = 1.5


def estimate(cost: PassCost, work: PassWork) -> float:
    return float(cost.estimates(PassWorks(np.array([work.tokens]), work.positions, np.array([work.pairs])))[0])


def measured(*passes: tuple[int, float]) -> PassCost:
    cost = PassCost()
    for tokens, seconds in passes:
        cost.observe(PassWork(tokens), seconds)
    return cost


def test_nothing_is_known_before_the_first_pass():
    assert estimate(PassCost(), PassWork(100)) == 0.0


def test_what_was_measured_is_found_again():
    cost = measured((1, 0.030), (58, 0.036), (1000, 0.130))
    assert [estimate(cost, PassWork(tokens)) for tokens in (1, 58, 1000)] == pytest.approx(
        [0.030, 0.036, 0.130], rel=0.01
    )


def test_a_class_follows_its_passes_slowly():
    cost = measured((8, 0.020))
    cost.observe(PassWork(8), 0.100)
    assert estimate(cost, PassWork(8)) == pytest.approx(0.030)
    for _ in range(60):
        cost.observe(PassWork(8), 0.060)
    assert estimate(cost, PassWork(8)) == pytest.approx(0.060, rel=0.02)


def test_a_class_that_is_seen_no_more_fades_towards_the_next_narrower_one():
    cost = measured((1, 0.030), (8, 0.200))
    estimates = [estimate(cost, PassWork(8))]
    for _ in range(60):
        cost.observe(PassWork(1), 0.030)
        estimates.append(estimate(cost, PassWork(8)))
    assert estimates == sorted(estimates, reverse=True)
    assert estimates[10] > 0.1
    assert estimates[-1] == pytest.approx(0.030, rel=0.1)


def test_a_class_that_has_faded_is_known_again_by_one_pass():
    """If it recovered as slowly as it follows, it would be tried again and again."""
    for seconds in (0.200, 0.050):
        cost = measured((1, 0.030), (8, 0.200), *[(1, 0.030)] * 60)
        cost.observe(PassWork(8), seconds)
        assert estimate(cost, PassWork(8)) == cost.measured(PassWork(8)) == pytest.approx(seconds, rel=0.02)


def test_a_class_that_is_seen_between_others_does_not_fade():
    cost = PassCost()
    for _ in range(50):
        for tokens, seconds in ((1, 0.030), (1, 0.030), (8, 0.200)):
            cost.observe(PassWork(tokens), seconds)
    assert estimate(cost, PassWork(8)) == pytest.approx(0.200, rel=0.02)


def test_no_class_is_dearer_than_a_wider_one():
    cost = measured((8, 3.0), (100, 0.050))
    assert [estimate(cost, PassWork(tokens)) for tokens in (8, 100)] == pytest.approx([0.050] * 2)


def test_a_dear_class_is_at_most_in_proportion_to_a_narrower_one():
    cost = measured((58, 3.0), (1, 0.030))
    assert estimate(cost, PassWork(58)) <= 58 * 0.030


def test_between_two_classes_it_is_linear_in_tokens():
    cost = measured((1, 0.010), (58, 0.030))
    for tokens in (2, 10, 30, 50):
        assert estimate(cost, PassWork(tokens)) == pytest.approx(0.010 + 0.020 * (tokens - 1) / 57)


def test_nothing_fades_where_others_wait_for_the_pass():
    cost = measured((1, 0.030), (8, 0.200), *[(1, 0.030)] * 60)
    assert cost.measured(PassWork(8)) == pytest.approx(0.200, rel=0.001)
    assert estimate(cost, PassWork(8)) < 0.040
    assert cost.measured(PassWork(1)) == cost.measured(PassWork(0)) == 0.030


@pytest.mark.parametrize(("per_read", "per_score"), [(0.0, 0.0), (1e-5, 0.0), (0.0, 1e-6), (1e-5, 1e-6)])
def test_context_is_priced_and_tokens_are_not_charged_for_it(per_read, per_score):
    """Chunks of a prompt and decoding beside it, whose contexts grow: as when a server begins."""
    cost, draws = PassCost(), random.Random(1)
    for _ in range(400):
        count = draws.randrange(1, 4)
        work = sessions_work((draws.choice([1, 16, 100]), draws.randrange(4000)) for _ in range(count))
        seconds = 0.02 + 0.0005 * work.tokens + per_read * work.positions + per_score * work.pairs
        cost.observe(work, seconds * draws.uniform(0.95, 1.05))
    for tokens, context in ((1, 0), (1, 3000), (16, 3000), (100, 1000)):
        work = sessions_work([(tokens, context)])
        seconds = 0.02 + 0.0005 * tokens + per_read * work.positions + per_score * work.pairs
        assert estimate(cost, work) == pytest.approx(seconds, rel=0.3), (tokens, context)


def test_below_the_smallest_one_class_is_hoped_to_be_cheaper_in_proportion_until_it_is_known():
    cost = measured((100, 0.030), (1000, 0.090))
    assert estimate(cost, PassWork(82)) == 0.030
    assert [estimate(cost, PassWork(tokens)) for tokens in (0, 1, 10, 45)] == pytest.approx([0.030 / CLASS] * 4)
    cost.observe(PassWork(45), 0.030)
    assert estimate(cost, PassWork(45)) == 0.030


def test_beyond_the_largest_one_class_is_tried_at_its_price_and_more_is_in_proportion():
    cost = measured((100, 0.030))
    assert [estimate(cost, PassWork(tokens)) for tokens in (87, 100, 150)] == pytest.approx([0.030] * 3)
    assert [estimate(cost, PassWork(tokens)) for tokens in (1500, 3000)] == pytest.approx([0.300, 0.600])


@given(tokens=st.integers(1, 4000), more=st.integers(0, 4000), seconds=st.floats(0.001, 1.0))
def test_beyond_the_largest_it_never_grows_faster_than_tokens(tokens, more, seconds):
    hoped = estimate(measured((tokens, seconds)), PassWork(tokens + more))
    # A pass may stand at the upper end of its class.
    assert seconds <= hoped * (1 + 1e-9)
    assert hoped <= seconds * CLASS**0.5 * (tokens + more) / tokens * (1 + 1e-9)


@given(
    sizes=st.lists(st.integers(1, 4000), min_size=1, max_size=40),
    fixed=st.floats(0, 0.1),
    each=st.floats(0, 0.001),
    step=st.integers(1, 500),
)
def test_where_wider_passes_took_no_less_they_are_estimated_at_no_less(sizes, fixed, each, step):
    cost = PassCost()
    for tokens in sizes:
        cost.observe(PassWork(tokens), 0.001 + fixed * (tokens // step) + each * tokens)
    estimates = [estimate(cost, PassWork(tokens)) for tokens in range(0, 6000, 7)]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(estimates))


def test_a_class_that_has_faded_does_not_spoil_a_wider_one_that_is_seen():
    """A prompt's chunks come in one class after a long time without any."""
    cost = measured((350, 0.035), *[(8, 0.030)] * 60, *[(512, 0.0512)] * 30)
    assert cost.measured(PassWork(512)) == pytest.approx(0.0512, rel=0.001)
