"""client.drafting.depth: how many of the target's layers run here, by link and machine."""

import math

import pytest

from client.drafting.depth import Depth, best_depth
from common.draft_models.measured_acceptance import MeasuredAcceptance

SHALLOW = Depth(0, MeasuredAcceptance(2.0), level_seconds=0.005)
DEEP = Depth(3, MeasuredAcceptance(2.5), level_seconds=0.020)
GUESSING = Depth(0, MeasuredAcceptance(2.0, one_level=1.9), level_seconds=0.005)


@pytest.mark.parametrize(("round_trip", "layers"), [(0.0, 0), (0.060, 0), (0.150, 3), (0.600, 3)])
def test_deeper_pays_on_a_long_link_and_not_where_levels_cost_more_than_they_save(round_trip, layers):
    for depths in ([SHALLOW, DEEP], [DEEP, SHALLOW]):
        assert best_depth(depths, round_trip).layers == layers


def test_it_turns_where_the_stalls_saved_are_worth_the_slower_levels():
    # A token costs 0.015 s more, and a stall, of which 0.045 s are the passes', is less frequent.
    turns_at = 0.015 / (DEEP.worth.hit_rate - SHALLOW.worth.hit_rate) - 0.045
    assert best_depth([SHALLOW, DEEP], turns_at - 0.001).layers == 0
    assert best_depth([SHALLOW, DEEP], turns_at + 0.001).layers == 3


def test_a_slow_machine_runs_no_layers():
    slow = [Depth(depth.layers, depth.worth, 10 * depth.level_seconds) for depth in (SHALLOW, DEEP)]
    assert best_depth(slow, 0.600).layers == 0


def test_a_slow_machine_is_helped_by_guesses_and_a_long_link_by_hits():
    surer = Depth(0, MeasuredAcceptance(3.0), level_seconds=0.005)
    slow = [Depth(1, each.worth, 20 * each.level_seconds) for each in (surer, GUESSING)]
    assert best_depth([surer, GUESSING], 0.600) is surer
    assert best_depth(slow, 0.010) is slow[1]


def test_depth_that_costs_nothing_is_taken_without_a_link():
    assert best_depth([SHALLOW, Depth(3, MeasuredAcceptance(2.5), 0.005)], 0.0).layers == 3


def test_drafts_that_were_measured_to_miss_always_do_not_count_as_worse_than_that():
    """A pass commits a token by itself."""
    useless, slower = Depth(0, MeasuredAcceptance(0.2), 0.005), Depth(3, MeasuredAcceptance(1.0), 0.006)
    assert best_depth([useless, slower], 0.600).layers == 0


def test_speed_is_the_mean_of_that_of_the_texts_that_were_measured():
    depth = Depth(0, MeasuredAcceptance(4.0, 1.5, (100.0, 4.0)), level_seconds=0.0)
    assert 1 / depth.token_seconds(0.6) == pytest.approx((100 + 4) / 2 / (0.6 + 0.045))


def test_one_text_that_hardly_misses_outweighs_a_better_mean_where_misses_cost_most():
    even, uneven = MeasuredAcceptance(6.0, 1.9, (15.0, 15.0)), MeasuredAcceptance(6.0, 1.9, (60.0, 6.0))
    assert best_depth([Depth(0, even, 0.005), Depth(1, uneven, 0.005)], 0.6).layers == 1


def test_the_only_depth_is_the_best():
    assert best_depth([DEEP], 0.0) is DEEP


def test_a_depth_of_which_no_level_could_be_timed_comes_last_and_is_taken_where_there_is_no_other():
    unknown = [Depth(layers, MeasuredAcceptance(1.0), math.inf) for layers in (0, 3)]
    assert best_depth([*unknown, SHALLOW], 0.0) is SHALLOW
    assert best_depth(unknown, 0.1) is unknown[0]
