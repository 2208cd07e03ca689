import math

import pytest

from common.drafters.best_first import Expansion, choose, rescored
from common.protocol.views import NodeView, TreeView

VIEW = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.6)), NodeView(8, 7, 4, 3, math.log(0.3))))
CANDIDATES = {
    0: [(3, math.log(0.6)), (5, math.log(0.2))],
    7: [(4, math.log(0.5)), (6, math.log(0.4))],
    8: [(9, math.log(0.9))],
}


def chosen(**bounds):
    return [(p.parent, p.token) for p in choose(VIEW, CANDIDATES, Expansion(**bounds))]


def test_the_likeliest_new_nodes_come_first():
    assert chosen(breadth=8) == [(8, 9), (7, 6), (0, 5)]


def test_bounds_hold():
    assert chosen(breadth=2) == [(8, 9), (7, 6)]
    assert chosen(nodes=3) == [(8, 9)]
    assert chosen(nodes=2) == []
    assert chosen(least_probability=0.25) == [(8, 9)]


def test_a_proposal_carries_its_own_log_probability():
    assert choose(VIEW, CANDIDATES, Expansion())[0].logp == math.log(0.9)


def test_candidates_of_a_dead_node_are_passed_over():
    assert choose(TreeView((1,), ()), {5: [(1, -0.1)]}, Expansion()) == []


def test_a_node_is_rescored_by_what_its_parents_candidates_say_now():
    """Another drafter thought 3 unlikely, and what follows it with it."""
    view = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.01)), NodeView(8, 7, 4, 3, math.log(0.005))))
    assert probabilities(rescored(view, CANDIDATES)) == pytest.approx({7: 0.6, 8: 0.3})
    assert probabilities(rescored(view, {8: CANDIDATES[8]})) == pytest.approx({7: 0.01, 8: 0.005}), "nothing is known"
    assert probabilities(rescored(view, {0: CANDIDATES[0]})) == pytest.approx({7: 0.6, 8: 0.3}), "half of its parent's"


def test_a_token_that_is_no_candidate_is_at_most_as_likely_as_the_least():
    likely, unlikely = ({0: [(5, math.log(0.9)), (6, math.log(least))]} for least in (0.8, 0.02))
    view = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.4)), NodeView(8, 7, 4, 3, math.log(0.2))))
    assert probabilities(rescored(view, likely)) == pytest.approx({7: 0.4, 8: 0.2})
    assert probabilities(rescored(view, unlikely)) == pytest.approx({7: 0.02, 8: 0.01})
    assert probabilities(rescored(view, {0: []})) == pytest.approx({7: 0.4, 8: 0.2}), "of an offer of nothing"


def test_rescoring_changes_nothing_but_probabilities():
    assert [node[:4] for node in rescored(VIEW, CANDIDATES).nodes] == [node[:4] for node in VIEW.nodes]
    assert rescored(rescored(VIEW, CANDIDATES), CANDIDATES) == rescored(VIEW, CANDIDATES)


def test_what_hangs_from_a_node_that_is_less_likely_now_leaves_its_place_to_others():
    stale = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.9)),))
    candidates = {0: [(5, math.log(0.8)), (3, math.log(0.1))], 7: [(4, math.log(0.9))]}
    best = Expansion(breadth=1)
    assert [p.token for p in choose(rescored(stale, candidates), candidates, best)] == [5]
    assert [p.token for p in choose(stale, candidates, best)] == [4]


def probabilities(view):
    return {node.id: math.exp(node.logp) for node in view.nodes}
