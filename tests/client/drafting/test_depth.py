"""client.drafting.depth: how many of the target's layers run here, by link and machine."""

import pytest

from client.drafting.depth import Depth, best_depth

SHALLOW = Depth(0, accept_length=2.0, level_seconds=0.005)
DEEP = Depth(3, accept_length=2.5, level_seconds=0.020)


@pytest.mark.parametrize(("round_trip", "layers"), [(0.0, 0), (0.060, 0), (0.150, 3), (0.600, 3)])
def test_deeper_pays_on_a_long_link_and_not_where_levels_cost_more_than_they_save(round_trip, layers):
    for depths in ([SHALLOW, DEEP], [DEEP, SHALLOW]):
        assert best_depth(depths, round_trip).layers == layers


def test_it_turns_where_the_stalls_saved_are_worth_the_slower_levels():
    # A token costs 0.015 s more and stalls 0.1 times less: at a stall of 0.150 s, of which 0.045 s are the passes'.
    assert best_depth([SHALLOW, DEEP], 0.104).layers == 0
    assert best_depth([SHALLOW, DEEP], 0.106).layers == 3


def test_a_slow_machine_runs_no_layers():
    slow = [Depth(depth.layers, depth.accept_length, 10 * depth.level_seconds) for depth in (SHALLOW, DEEP)]
    assert best_depth(slow, 0.600).layers == 0


def test_depth_that_costs_nothing_is_taken_without_a_link():
    assert best_depth([SHALLOW, Depth(3, 2.5, 0.005)], 0.0).layers == 3


def test_drafts_that_were_measured_to_miss_always_do_not_count_as_worse_than_that():
    """A pass commits a token by itself."""
    useless, slower = Depth(0, 0.2, 0.005), Depth(3, 1.0, 0.006)
    assert best_depth([useless, slower], 0.600).layers == 0


def test_the_only_depth_is_the_best():
    assert best_depth([DEEP], 0.0) is DEEP
