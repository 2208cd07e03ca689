import math

from common.drafters.best_first import Expansion, choose
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


def test_a_node_counts_by_what_its_parents_candidates_say_now():
    """Another drafter thought 3 unlikely, and what follows it with it."""
    view = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.01)), NodeView(8, 7, 4, 3, math.log(0.005))))
    behind = {8: [(9, math.log(0.9))]}
    known = {0: CANDIDATES[0], 7: CANDIDATES[7]}
    bounds = Expansion(least_probability=0.25)
    assert [p.token for p in choose(view, behind | known, bounds)] == [9]
    assert choose(view, behind, bounds) == [], "its own probability, where the parent has no candidates"
    unknown = {0: [(5, math.log(0.2))], 7: [(4, math.log(0.5))]}
    assert [p.token for p in choose(view, behind | unknown, Expansion(least_probability=0.004))] == [5, 9]


def test_a_node_that_is_less_likely_now_leaves_its_place_to_others():
    stale = TreeView((1, 2), (NodeView(7, 0, 3, 2, math.log(0.9)),))
    candidates = {0: [(5, math.log(0.8)), (3, math.log(0.1))], 7: [(4, math.log(0.9))]}
    assert [p.token for p in choose(stale, candidates, Expansion(breadth=1))] == [5]
