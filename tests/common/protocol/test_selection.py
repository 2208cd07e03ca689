"""Which nodes a pass takes: the likeliest, or whole groups by their parent's probability; and what more would add."""

import itertools
import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import GrownNode
from common.protocol.selection import commit_probabilities, expected_level_gain, likeliest
from common.protocol.tree import TokenTree

FAR = 100


def tree_of(nodes, grouped):
    """`nodes` are (parent, logp), numbered from 1; siblings that follow one another come together."""
    tree = TokenTree([9])
    tree.grouped = grouped
    numbered = [GrownNode(i, parent, i, logp) for i, (parent, logp) in enumerate(nodes, start=1)]
    for _, group in itertools.groupby(numbered, key=lambda node: node.parent):
        tree.grow(1, list(group))
    return tree


def chosen(tree, count, room=FAR):
    """The ids of the nodes, which are their tokens."""
    return tree.rows.tokens[list(likeliest(tree, count, room))].tolist()


def test_what_is_as_good_as_impossible_adds_nothing_and_breaks_nothing():
    """Sums over long paths underflow."""
    chain = tree_of([(parent, -100.0) for parent in range(300)], grouped=False)
    weighed = weighed_alone(chain, 0.6)
    assert weighed[-290:].tolist() == [0.0] * 290
    assert chosen(chain, 300, room=1000) == list(range(1, 301))
    assert expected_level_gain(chain, 10_000) == 0.0
    beside = tree_of([(0, -0.1), *((parent, -100.0) for parent in range(1, 301))], grouped=False)
    assert weighed_alone(beside)[0] == pytest.approx(math.exp(-0.1))


def weighed_alone(tree, max_acceptance=1.0):
    return commit_probabilities([tree.rows], [max_acceptance])[0]


# Two children of the root, two of the worse child, one of the better.
NODES = [(0, -2.0), (0, -0.5), (1, -0.1), (1, -0.3), (2, -3.0)]


@pytest.mark.parametrize(
    ("count", "ids"), [(0, []), (1, [2]), (2, [2, 1]), (3, [2, 1, 3]), (4, [2, 1, 3, 4]), (9, [2, 1, 3, 4, 5])]
)
def test_single_nodes_go_likeliest_first(count, ids):
    assert chosen(tree_of(NODES, grouped=False), count) == ids


@pytest.mark.parametrize(
    ("count", "ids"),
    [(1, []), (2, [1, 2]), (3, [1, 2, 5]), (4, [1, 2, 5]), (5, [1, 2, 5, 3, 4])],
)
def test_groups_go_all_or_none_in_their_own_order_the_better_parents_first(count, ids):
    assert chosen(tree_of(NODES, grouped=True), count) == ids


def test_a_smaller_group_takes_the_place_of_one_that_does_not_fit():
    tree = tree_of([(0, -1.0), (0, -2.0), (1, -0.1), (1, -0.1), (2, -5.0)], grouped=True)
    assert chosen(tree, 3) == [1, 2, 5]


@pytest.mark.parametrize("grouped", [False, True])
def test_nothing_is_taken_for_which_the_answer_has_no_room(grouped):
    tree = tree_of([(0, -1.0), (1, -1.0), (2, -1.0)], grouped)
    assert chosen(tree, 9, room=3) == [1, 2]
    assert chosen(tree, 9, room=1) == []


shapes = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=6)


def grow_shape(shape, logps):
    """Groups of given sizes below nodes that came before; no node gets two."""
    nodes, taken = [], set()
    for parent, size in shape:
        if parent <= len(nodes) and parent not in taken:
            taken.add(parent)
            nodes += [(parent, next(logps)) for _ in range(size)]
    return nodes


@given(shape=shapes, seed=st.randoms(use_true_random=False), count=st.integers(0, 12))
def test_a_groups_place_does_not_depend_on_its_own_members(shape, seed, count):
    """Siblings without children may have any probability: the choice stays the same."""
    nodes = grow_shape(shape, iter(lambda: -seed.random(), None))
    parents = {parent for parent, _ in nodes}
    others = [(parent, logp if id_ in parents else -9 * seed.random()) for id_, (parent, logp) in enumerate(nodes, 1)]
    assert chosen(tree_of(nodes, grouped=True), count) == chosen(tree_of(others, grouped=True), count)


@given(shape=shapes, seed=st.randoms(use_true_random=False), count=st.integers(0, 12), grouped=st.booleans())
def test_what_is_chosen_fits_and_hangs_together(shape, seed, count, grouped):
    nodes = grow_shape(shape, iter(lambda: -seed.random(), None))
    tree = tree_of(nodes, grouped)
    ids = chosen(tree, count)
    assert len(ids) == len(set(ids)) <= count
    for index, id_ in enumerate(ids):
        parent = nodes[id_ - 1][0]
        assert parent == 0 or parent in ids[:index]
        if grouped:
            group = [other for other, (above, _) in enumerate(nodes, 1) if above == parent]
            assert [other for other in ids if other in group] == group
    assert chosen(tree, len(nodes)) != [] or not nodes


def test_nothing_promises_nothing():
    assert weighed_alone(TokenTree([9])).tolist() == []


def test_a_nodes_chance_is_its_paths_and_the_likeliest_come_first():
    half, quarter = math.log(0.5), math.log(0.25)
    nodes = [(0, quarter), (0, half), (1, half), (2, half), (4, quarter)]
    assert weighed_alone(tree_of(nodes, grouped=False)) == pytest.approx([0.5, 0.25, 0.25, 0.125, 0.0625])


def test_chances_count_from_the_root_as_it_is_now():
    tree = tree_of([(0, math.log(0.1)), (0, math.log(0.8)), (1, math.log(0.5)), (3, math.log(0.5))], grouped=False)
    tree.commit([1])
    assert weighed_alone(tree) == pytest.approx([0.5, 0.25])


def test_groups_promise_alike_whatever_was_drawn():
    assert weighed_alone(tree_of(NODES, grouped=True)).tolist() == [1 / 2] * 2 + [1 / 3] * 3


def shares_of_parents(shape, seed):
    """Siblings share the probability of their parent."""
    nodes = []
    for parent, size in shape:
        if parent <= len(nodes) and all(above != parent for above, _ in nodes):
            parts = [seed.random() + 0.01 for _ in range(size + 1)]
            nodes += [(parent, math.log(part / sum(parts))) for part in parts[:size]]
    return nodes


@given(shape=shapes, seed=st.randoms(use_true_random=False))
def test_chances_are_those_of_the_nodes_that_would_be_taken_in_turn(shape, seed):
    """A pass of that width takes the first nodes of the order."""
    tree = tree_of(shares_of_parents(shape, seed), grouped=False)
    logps = tree.rows.logps[list(likeliest(tree, len(tree), FAR))]
    assert weighed_alone(tree).tolist() == [math.exp(logp) for logp in logps]


@given(
    shape=shapes,
    seed=st.randoms(use_true_random=False),
    grouped=st.booleans(),
    max_acceptance=st.floats(0.01, 1.0),
)
def test_a_level_is_believed_no_more_than_it_can_be_worth_whatever_was_said(shape, seed, grouped, max_acceptance):
    nodes = grow_shape(shape, iter(lambda: -seed.random(), None))
    tree = tree_of(nodes, grouped)
    levels = {node.position for node in tree.nodes()}
    believed = weighed_alone(tree, max_acceptance).tolist()
    assert believed == sorted(believed, reverse=True)
    assert sum(believed) <= sum(max_acceptance ** (position - tree.root.position) for position in levels) * (1 + 1e-9)
    assert len(believed) == len(nodes)


@given(
    shapes=st.lists(st.tuples(shapes, st.booleans(), st.floats(0.01, 1.0)), min_size=1, max_size=4),
    seed=st.randoms(use_true_random=False),
)
def test_trees_that_are_weighed_together_are_weighed_as_alone(shapes, seed):
    trees = [tree_of(grow_shape(shape, iter(lambda: -seed.random(), None)), grouped) for shape, grouped, _ in shapes]
    most = [max_acceptance for _, _, max_acceptance in shapes]
    together = commit_probabilities([tree.rows for tree in trees], most)
    alone = [weighed_alone(tree, own) for tree, own in zip(trees, most, strict=True)]
    assert [each.tolist() for each in together] == [each.tolist() for each in alone]


def test_a_drafter_that_is_sure_of_everything_is_believed_to_know_one_token_at_each_position():
    tree = tree_of([(0, 0.0)] * 4 + [(1, 0.0), (1, 0.0)], grouped=False)
    assert weighed_alone(tree).tolist() == [0.25] * 6
    assert weighed_alone(tree, 0.5).tolist() == [0.125] * 6


def test_bounds_of_levels_are_products_which_are_the_same_on_every_processor():
    sure = tree_of([(parent, 0.0) for parent in range(200)], grouped=False)
    assert weighed_alone(sure, 0.93).tolist() == list(itertools.accumulate([0.93] * 200, operator.mul))


def test_a_bare_root_gains_a_token_by_its_first_level():
    assert expected_level_gain(TokenTree([9]), 1000) == 1.0


def test_another_level_adds_what_the_leaves_promise():
    half, quarter = math.log(0.5), math.log(0.25)
    assert expected_level_gain(tree_of([(0, half), (0, quarter)], grouped=False), 1000) == pytest.approx(0.75)
    assert expected_level_gain(tree_of([(0, half), (0, quarter), (1, half)], grouped=False), 1000) == pytest.approx(0.5)
    assert expected_level_gain(tree_of([(0, half), (1, half), (2, half)], grouped=False), 1000) == pytest.approx(0.125)


def test_what_was_committed_promises_no_less():
    """Scores count from the current root."""
    tree = tree_of([(0, math.log(0.1)), (1, math.log(0.5))], grouped=False)
    tree.commit([1])
    assert expected_level_gain(tree, 1000) == pytest.approx(0.5)


def test_where_the_answer_ends_another_level_adds_nothing():
    half = math.log(0.5)
    tree = tree_of([(0, half), (0, half), (1, half)], grouped=False)
    assert [expected_level_gain(tree, room) for room in (2, 3, 4)] == pytest.approx([0.0, 0.5, 0.75])
    assert expected_level_gain(TokenTree([9]), 1) == 0.0


@given(shape=shapes, seed=st.randoms(use_true_random=False))
def test_one_more_node_never_adds_more_than_a_token(shape, seed):
    tree = tree_of(shares_of_parents(shape, seed), grouped=False)
    assert 0 < expected_level_gain(tree, 1000) <= 1.0
