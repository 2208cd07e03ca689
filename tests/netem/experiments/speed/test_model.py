"""netem.experiments.speed.model: what must hold of any prediction, where it can be worked out by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest

from netem.experiments.speed.model import Costs, coverage_of, predict

PASS = 0.03
SERVER_LEVEL = 0.005 / 3
COSTS = Costs(up_s=0.02, down_s=0.02, pass_s=PASS, level_s=0.005)
ASSISTED = replace(COSTS, server_level_s=SERVER_LEVEL)


@pytest.mark.parametrize("levels", [1, 2, 8, 24])
@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.8, 0.95, 0.999])
def test_the_coverage_is_what_gives_the_accept_length(coverage, levels):
    accept_length = sum(coverage**power for power in range(levels + 1))
    assert coverage_of(accept_length, levels) == pytest.approx(coverage, abs=1e-6)


@pytest.mark.parametrize(("accept_length", "coverage"), [(0.5, 0.0), (1.0, 0.0), (9.0, 1.0), (20.0, 1.0)])
def test_an_accept_length_that_no_coverage_gives_is_the_nearest_that_one_does(accept_length, coverage):
    assert coverage_of(accept_length, 8) == pytest.approx(coverage, abs=1e-6)


@pytest.mark.parametrize("costs", [COSTS, ASSISTED, replace(COSTS, up_s=0.3), replace(COSTS, level_s=1e-4)])
def test_without_coverage_a_pass_commits_one_token(costs):
    assert predict(0.0, costs) == pytest.approx(1 / PASS)


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("level", [0.001, 0.002, 0.005])
def test_drafts_that_never_miss_come_as_fast_as_they_are_drafted(level, delay):
    speed = predict(1.0, Costs(delay, delay, PASS, level))
    assert 0.98 / level < speed <= 1 / level


def test_a_laptop_slower_than_the_passes_does_not_slow_them():
    assert predict(1.0, replace(COSTS, level_s=10.0)) == pytest.approx(1 / PASS, rel=0.01)


@pytest.mark.parametrize("server_level_s", [None, SERVER_LEVEL])
@pytest.mark.parametrize("coverage", [0.3, 0.7, 0.9, 1.0])
def test_more_delay_is_never_faster(coverage, server_level_s):
    delays = [0.0, 0.002, 0.01, 0.03, 0.1, 0.3]
    costs = Costs(0.02, 0.02, PASS, 0.005, server_level_s)
    for lengthened in (
        [replace(costs, up_s=delay) for delay in delays],
        [replace(costs, down_s=delay) for delay in delays],
        [replace(costs, up_s=delay, down_s=delay) for delay in delays],
    ):
        speeds = [predict(coverage, each) for each in lengthened]
        assert all(later <= earlier for earlier, later in pairwise(speeds))


def test_over_an_endless_link_a_laptops_drafts_are_worth_nothing():
    assert predict(0.9, replace(COSTS, up_s=1e4, down_s=1e4)) == pytest.approx(1 / PASS)


def test_more_coverage_is_faster():
    speeds = [predict(coverage, COSTS) for coverage in (0.2, 0.5, 0.8, 0.95)]
    assert all(later > 1.02 * earlier for earlier, later in pairwise(speeds))


def test_the_server_alone_drafts_as_many_levels_in_a_pass_as_fit():
    """A third of 5 ms fits 18 times into 30 ms, though the quotient as computed is a little less."""
    assert 17 < PASS / SERVER_LEVEL < 18
    alone = Costs(1e4, 1e4, PASS, 10.0, SERVER_LEVEL)
    # Each pass judges what was drafted during the last one, and adds a token.
    assert predict(1.0, alone) == pytest.approx(18 / PASS, rel=0.01)
    assert predict(1.0, replace(alone, server_level_s=PASS / 17.6)) == pytest.approx(17 / PASS, rel=0.01)
    assert predict(1.0, replace(alone, server_level_s=2 * PASS)) == pytest.approx(1 / PASS, rel=0.01)
