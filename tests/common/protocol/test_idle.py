"""From when a session takes part in a pass, and that `assist` waits exactly as long as waiting pays."""

import math

import pytest

from common.protocol.acceptance import AcceptanceEstimator
from common.protocol.idle import IDLE_POLICIES, PATIENT_NODES, Waiting
from common.protocol.pass_timings import PassTimings
from common.protocol.selection import expected_level_gain
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal

SINCE, RESPONSE = 10.0, 0.25
PASS = 0.03
SURE = 1e-12  # a probability that no longer matters


def due(policy, nodes=0, answered=False, exhausted=False, pass_s=PASS, **known):
    waiting = Waiting(nodes, answered, exhausted, SINCE, RESPONSE, pass_s=pass_s, **known)
    return IDLE_POLICIES[policy].due(waiting)


@pytest.mark.parametrize(
    ("policy", "nodes", "exhausted", "when"),
    [
        ("eager", 0, False, SINCE),
        ("patient", 0, False, SINCE + RESPONSE),
        ("patient", PATIENT_NODES - 1, False, SINCE + RESPONSE),
        ("patient", PATIENT_NODES, False, SINCE),
        ("patient", 0, True, SINCE),
    ],
)
def test_when_a_policy_takes_part_in_a_pass(policy, nodes, exhausted, when):
    assert due(policy, nodes, exhausted=exhausted) == when


@pytest.mark.parametrize("policy", ["assist", "auto"])
def test_a_pass_of_others_is_not_missed_for_a_level(policy):
    waits_for_a_level = {"level_gain": 1.0, "miss_rate": 0.1, "levels_per_pass": 6.0}
    assert due(policy, **waits_for_a_level) > SINCE
    assert due(policy, **waits_for_a_level, can_join_pass=True) == SINCE


def test_lockstep_waits_for_an_answer_whatever_is_left_of_the_last_tree():
    assert due("lockstep", nodes=9) == math.inf
    assert due("lockstep", nodes=0, answered=True) == SINCE


def seconds_between_misses(waited, levels_per_pass, miss_rate):
    """The mean time in levels if `waited` levels are drafted before the pass that follows a miss.

    Enumerates every outcome: `right` tokens are drafted right, the next one is not. A pass judges what was drafted
    before it began, and commits the token that was missed once it is among them.
    """
    mean, right, chance = 0.0, 0, miss_rate
    while chance > SURE * miss_rate:
        drafted, levels = waited, waited + levels_per_pass
        while drafted <= right:
            drafted, levels = drafted + levels_per_pass, levels + levels_per_pass
        mean += chance * levels
        right, chance = right + 1, chance * (1 - miss_rate)
    return mean


def waits(policy, miss_rate, levels_per_pass):
    """The levels for which a policy waits, along a chain with that acceptance rate."""
    tree, known = TokenTree([1]), {"miss_rate": miss_rate, "levels_per_pass": levels_per_pass}
    while due(policy, level_gain=expected_level_gain(tree, 1000), **known) > SINCE:
        nodes = tree.view().nodes
        tree.add_server_drafted(1, [Proposal(nodes[-1].id if nodes else 0, 2, math.log(1 - miss_rate))])
    return len(tree)


@pytest.mark.parametrize("policy", ["assist", "auto"])
@pytest.mark.parametrize("levels_per_pass", [1, 2, 3, 5, 8, 18])
@pytest.mark.parametrize("miss_rate", [0.03, 0.1, 0.2, 0.37, 0.6, 0.9])
def test_no_other_number_of_levels_to_wait_for_brings_the_next_miss_sooner(policy, miss_rate, levels_per_pass):
    times = [seconds_between_misses(waited, levels_per_pass, miss_rate) for waited in range(3 * levels_per_pass + 2)]
    assert times[waits(policy, miss_rate, levels_per_pass)] == pytest.approx(min(times), rel=1e-9)


def test_the_drafts_that_miss_least_are_not_waited_for():
    """What is always right is there for the next pass as well."""
    for miss_rate in (1e-4, 1e-7, 1e-10, 1e-14, 0.0):
        assert due("assist", level_gain=0.999, miss_rate=miss_rate, levels_per_pass=18.0) == SINCE


@pytest.mark.parametrize("levels_per_pass", [0.0, 1e-9, 0.3, 0.9])
def test_nothing_is_waited_for_where_a_level_takes_as_long_as_a_pass(levels_per_pass):
    assert due("assist", level_gain=1.0, miss_rate=0.2, levels_per_pass=levels_per_pass) == SINCE


@pytest.mark.parametrize("policy", ["assist", "auto"])
def test_a_bare_root_waits_for_the_first_level_and_for_none_where_none_is_drafted(policy):
    known = {"miss_rate": 0.2, "levels_per_pass": 6.0}
    assert due(policy, level_gain=1.0, **known) > SINCE
    assert due(policy, level_gain=0.0, **known) == SINCE


@pytest.mark.parametrize("pass_s", [0.0, PASS, 1.0])
@pytest.mark.parametrize("policy", ["assist", "auto"])
def test_what_waits_for_the_servers_own_drafter_never_waits_for_a_whole_pass(policy, pass_s):
    """However sure the drafts are, so that tokens keep coming evenly."""
    for levels_per_pass in (2.0, 1000.0, math.inf):
        waited = due(policy, pass_s=pass_s, level_gain=1.0, miss_rate=0.5, levels_per_pass=levels_per_pass) - SINCE
        assert waited < pass_s or waited == pass_s == 0


def test_before_anything_is_known_nothing_is_waited_for():
    pass_timings, acceptance = PassTimings(), AcceptanceEstimator()
    known = {
        "level_gain": expected_level_gain(TokenTree([1]), 1000),
        "tokens_per_s": acceptance.tokens_per_s,
        "miss_rate": acceptance.miss_rate,
        "level_s": pass_timings.level_s,
        "levels_per_pass": pass_timings.levels_per_pass,
        "pass_s": pass_timings.pass_s,
    }
    assert due("assist", **known) == due("auto", **known) == due("colocated", **known) == SINCE


@pytest.mark.parametrize(("level_gain", "when"), [(0.5, math.inf), (0.2, SINCE), (0.19, SINCE)])
def test_colocated_drafts_while_a_level_gains_more_than_the_time_it_takes(level_gain, when):
    """At 20 tokens a second a level of 10 ms is worth a fifth of a token."""
    assert due("colocated", level_gain=level_gain, tokens_per_s=20.0, level_s=0.01) == when
    assert due("colocated", level_gain=level_gain, tokens_per_s=40.0, level_s=0.005) == when
