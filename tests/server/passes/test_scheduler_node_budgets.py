"""server.passes.scheduler: a pass is as wide as pays, and no client's claims take nodes from the others."""

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.passes.pass_cost import PassWork, PassWorks
from server.passes.scheduler import node_budgets

Work = PassWork | PassWorks


def flat(work: Work) -> Any:
    return 0.03 + 0 * work.tokens


def rising(work: Work) -> Any:
    """The demo's stated costs: 30 ms, and 0.1 ms per token."""
    return 0.03 + 0.0001 * work.tokens


def stepping(work: Work) -> Any:
    """Memory-bound up to some width, then in steps, like GPU kernels."""
    return 0.03 + 0.004 * (np.maximum(0, work.tokens - 40) // 25)


def taken(probabilities, max_nodes=400, cost=flat):
    return node_budgets(probabilities, [0] * len(probabilities), max_nodes, cost)


sessions = st.lists(
    st.lists(st.floats(0.001, 1.0), max_size=60).map(lambda own: sorted(own, reverse=True)), min_size=1, max_size=9
)


def test_nobody_decodes():
    assert taken([]) == []


def test_where_others_leave_room_one_takes_it():
    assert taken([[0.5] * 200] + [[]] * 7) == [200, 0, 0, 0, 0, 0, 0, 0]
    assert taken([[0.5] * 900] + [[0.4] * 10] * 7) == [330, *[10] * 7]


def test_where_all_want_more_none_gets_more_than_twice_its_even_share():
    counts = taken([[1.0] * 400] + [[0.1] * 400] * 7)
    assert sum(counts) == 400
    assert counts[0] == 89  # less than 100, which is twice the even share of 50


@given(probabilities=sessions, max_nodes=st.integers(0, 120), cost=st.sampled_from([flat, rising, stepping]))
def test_above_its_share_a_session_gets_only_what_the_others_do_not_want(probabilities, max_nodes, cost):
    counts = taken(probabilities, max_nodes, cost)
    assert sum(counts) <= max_nodes
    share = math.ceil(2 * max_nodes / (len(probabilities) + 1))
    for index, count in enumerate(counts):
        assert 0 <= count <= len(probabilities[index])
        wanted = sum(min(len(own), share) for other, own in enumerate(probabilities) if other != index)
        assert count <= max(share, max_nodes - wanted)


@given(probabilities=sessions, max_nodes=st.integers(0, 600))
def test_nodes_that_cost_nothing_are_all_taken(probabilities, max_nodes):
    assert sum(taken(probabilities, max_nodes)) == min(max_nodes, sum(map(len, probabilities)))


@pytest.mark.parametrize("others", [1, 2, 7])
@pytest.mark.parametrize(("cost", "kept"), [(flat, 12), (rising, 5)])
def test_one_that_says_all_its_nodes_are_certain_does_not_starve_the_others(others, cost, kept):
    """It takes no node's place that the others want. Where passes cost 30 ms and 0.1 ms per token, 400 nodes claimed
    certain would bring 0.58 tokens in the time of one, and every node above that still pays for itself."""
    honest = [0.9**depth for depth in range(1, 13)]
    counts = taken([[1.0] * 400] + [honest] * others, cost=cost)
    assert all(kept <= count <= 12 for count in counts[1:])


def test_of_two_sessions_one_with_false_claims_leaves_the_other_a_third():
    assert taken([[1.0] * 400, [0.5] * 400], max_nodes=300) == [200, 100]


def test_nodes_beyond_a_sessions_share_do_not_raise_the_bar_for_others():
    """Its later nodes are ranked after the others' own, however likely it claims they are."""
    honest = [[0.3] * 20] * 7
    modest, greedy = (taken([[1.0] * max_nodes, *honest], cost=rising) for max_nodes in (89, 400))
    assert modest[1:] == greedy[1:] == [20] * 7
    assert greedy[0] == 400 - 7 * 20


@pytest.mark.parametrize("cost", [flat, rising, stepping])
@pytest.mark.parametrize("seed", range(20))
def test_the_width_brings_most_tokens_a_second(seed, cost):
    """Compared with every possible width, over random nodes of all sessions; no share is a limit."""
    draws = random.Random(seed)
    probabilities = [sorted((draws.random() ** 2 for _ in range(30)), reverse=True) for _ in range(8)]
    counts = node_budgets(probabilities, [0] * 8, 8 * 60, cost)

    ranked = sorted((chance for own in probabilities for chance in own), reverse=True)

    def speed(width: int) -> float:
        return (8 + sum(ranked[:width])) / cost(PassWork(8 + width))

    width = sum(counts)
    assert counts == [sum(chance in ranked[:width] for chance in own) for own in probabilities]
    widths = range(len(ranked) + 1)
    assert speed(width) == pytest.approx(max(speed(each) for each in [*widths[::8], len(ranked)]))
    best = max(widths, key=speed)
    # The step below the best holds at most 7 tokens less, in no more time.
    assert speed(width) >= (8 + sum(ranked[: best - best % 8])) / cost(PassWork(8 + best))
    if cost is rising:
        assert abs(width - best) <= 8


def test_a_pass_is_not_widened_by_what_costs_more_than_it_adds():
    def steep(work: Work) -> Any:
        return 0.001 * work.tokens

    assert taken([[0.9] * 50, [0.2] * 50], cost=steep) == [0, 0]


def test_of_a_long_context_fewer_nodes_are_verified_where_scores_take_time():
    def scoring(work: Work) -> Any:
        return 0.030 + 0.0001 * work.tokens + 1e-6 * work.pairs

    probabilities = [[0.5**depth for depth in range(1, 13)] * 4] * 2
    probabilities = [sorted(own, reverse=True) for own in probabilities]
    short, long = (sum(node_budgets(probabilities, [context] * 2, 400, scoring)) for context in (100, 8000))
    assert 0 < long < short / 2


def test_nodes_share_what_reading_a_context_takes():
    """K/V are read once for all tokens of a session, so that a long context makes the pass longer and nodes cheaper."""

    def reading(work: Work) -> Any:
        return 0.005 + 0.001 * work.tokens + 1e-5 * work.positions

    probabilities = [[0.1] * 80]
    short, long = (sum(node_budgets(probabilities, [context], 400, reading)) for context in (0, 30_000))
    assert (short, long) == (0, 80)
