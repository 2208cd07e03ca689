"""netem.experiments.speed.sets: what the model is given of a link and a system."""

from dataclasses import replace

import pytest

from common.stated_costs import DRAFT_SECONDS
from netem.experiments.speed.sets import costs_of, travel
from netem.experiments.speed.systems import AUTO, EAGER
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile
from netem.links.way import both_ways
from netem.virtual.server import PACE

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


def test_only_auto_drafts_on_the_server():
    for system, server_level_s in ((EAGER, None), (AUTO, PACE.per_level)):
        costs = costs_of(system, UNEVEN)
        assert (costs.pass_s, costs.level_s, costs.server_level_s) == (PACE.per_pass, DRAFT_SECONDS, server_level_s)
        assert (costs.up_s, costs.down_s) == (pytest.approx(0.021), pytest.approx(0.051))
