"""netem.experiments.speed.sets: what the model is given of a link and a system."""

from dataclasses import replace

import pytest

from common.stated_costs import STATED
from netem.experiments.speed.runs import Run, TimedAnswer
from netem.experiments.speed.sets import costs_of, rounds_coverage, travel
from netem.experiments.speed.systems import AUTO, EAGER
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile
from netem.links.way import both_ways
from netem.virtual.server import PACE
from server.sessions.counters import Counters
from tests.client.demo.answers import answer

UNEVEN = LinkProfile("uneven", "for a test", Direction(1.2e6, delay_ms=20), Direction(1.2e6, delay_ms=50))


def test_a_small_packet_takes_its_delay_and_its_transmission():
    up, down = both_ways(UNEVEN)
    # 150 bytes take 1 ms at 1.2 Mbit/s.
    assert travel(up, 0.015) == pytest.approx(0.021)
    assert travel(down, 0.015) == pytest.approx(0.051)


def test_what_is_sent_often_waits_longer_for_jitter():
    often, seldom = (travel(both_ways(find_profile("4g"))[0], every) for every in (0.005, 1.0))
    assert often > 1.2 * seldom


def test_lost_packets_are_left_out():
    lossy = LinkProfile("lossy", "for a test", replace(UNEVEN.up, loss=0.2), UNEVEN.down)
    assert travel(both_ways(lossy)[0], 0.015) == pytest.approx(0.021)


def rounds_of(*answers: tuple[int, int]) -> Run:
    """Answers of so many tokens in so many passes."""
    given = [answer(tuple(range(tokens))) for tokens, _ in answers]
    counted = [
        replace(each, stats=replace(each.stats, passes=passes))
        for each, (_, passes) in zip(given, answers, strict=True)
    ]
    return Run([TimedAnswer(each, 0.0, ()) for each in counted], Counters())


def test_coverage_leaves_out_the_prompts_own_passes():
    """Each commits one token; then a round of six levels commits seven where all are accepted, and one where none."""
    assert rounds_coverage(rounds_of((1 + 7 * 3, 1 + 3), (1 + 7 * 2, 1 + 2))) > 0.999
    assert rounds_coverage(rounds_of((5, 5))) < 0.001
    assert rounds_coverage(rounds_of((1 + 127, 1 + 64))) == pytest.approx(0.5)  # 127 / 64 is 1 + 1/2 + ... + 1/64


def test_answers_without_a_round_have_no_coverage():
    assert rounds_coverage(rounds_of((1, 1))) == 0.0


def test_only_auto_drafts_on_the_server():
    for system, server_level_s in ((EAGER, None), (AUTO, PACE.per_level)):
        costs = costs_of(system, UNEVEN)
        assert (costs.pass_s, costs.level_s, costs.server_level_s) == (
            PACE.per_pass,
            STATED.draft_seconds,
            server_level_s,
        )
        assert (costs.up_s, costs.down_s) == (pytest.approx(0.021), pytest.approx(0.051))
