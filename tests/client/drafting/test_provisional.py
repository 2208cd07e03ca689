"""What is shown before it is committed, and what of it is retracted."""

import math

import pytest

from client.drafting.provisional import ProvisionalCount, likeliest_run, run_to_write_on
from common.protocol.messages import GrownNode
from common.protocol.tree import TokenTree


def offered(tree, room, ends=()):
    return [node.token for node in likeliest_run(tree, room, ends)]


def test_the_run_follows_the_likeliest_child_of_each_level():
    tree = TokenTree([1])
    tree.grow(1, [GrownNode(1, 0, 5, -2.0), GrownNode(2, 0, 6, -0.1), GrownNode(3, 2, 7, -1.0), GrownNode(4, 1, 8, 0)])
    assert offered(tree, 5) == [6, 7]


def test_nothing_is_offered_beyond_the_end_of_the_answer():
    tree = TokenTree([1])
    tree.grow(1, [GrownNode(1, 0, 5, -0.1), GrownNode(2, 1, 6, -0.1)])
    assert offered(tree, 1) == [5]
    assert offered(tree, 0) == []


def test_nothing_is_offered_behind_a_token_that_ends_the_answer():
    tree = TokenTree([9])  # a prompt may end with such a token
    tree.grow(1, [GrownNode(1, 0, 5, -0.1), GrownNode(2, 1, 9, -0.1), GrownNode(3, 2, 6, -0.1)])
    assert offered(tree, 5, [9]) == [5, 9]
    assert offered(tree, 5) == [5, 9, 6]


def test_offered_tokens_count_once_and_replaced_ones_are_retracted():
    tally = ProvisionalCount()
    tally.update((), (5, 6))
    tally.update((), (5, 6, 7))
    tally.update((5,), (6, 7))
    assert (tally.offered, tally.retracted) == (3, 0)
    tally.update((6, 9), (4,))
    assert (tally.offered, tally.retracted) == (4, 1)
    tally.update((), ())
    assert (tally.offered, tally.retracted) == (4, 2)


def tree_of(*chain, grouped=False):
    """A tree with one node a level, of these tokens and probabilities."""
    tree = TokenTree([1])
    tree.grouped = grouped
    tree.grow(1, [GrownNode(n + 1, n, token, math.log(chance)) for n, (token, chance) in enumerate(chain)])
    return tree


@pytest.mark.parametrize(("chances", "likely"), [((0.8, 0.7), 2), ((0.8, 0.6), 1), ((0.51, 1.0), 2), ((0.49, 1.0), 0)])
def test_writing_goes_on_behind_the_nodes_that_are_likely_together(chances, likely):
    tree = tree_of(*zip((7, 8), chances, strict=True))
    assert [node.token for node in run_to_write_on(tree, 9, (), ())] == [7, 8][:likely]


def test_what_was_written_stays_and_the_likely_part_behind_it_counts():
    tree = tree_of((7, 0.9), (8, 0.9), (9, 0.5))
    for written in ((), (7,), (7, 8)):
        assert [node.token for node in run_to_write_on(tree, 9, (), written)] == [7, 8]
    assert [node.token for node in run_to_write_on(tree, 9, (), (7, 8, 9))] == [7, 8, 9]
    assert [node.token for node in run_to_write_on(tree, 1, (), (7, 8, 9))] == [7]
    assert [node.token for node in run_to_write_on(tree, 9, (), (5,))] == [7, 8]


def test_of_a_tree_of_groups_the_whole_run_is_written_on():
    assert len(run_to_write_on(tree_of((7, 0.3), (8, 0.3), grouped=True), 9, (), ())) == 2


def test_what_is_final_makes_no_difference_to_how_likely_the_rest_is():
    tree = tree_of((7, 0.1), (8, 0.9), (9, 0.9), (5, 0.1))
    tree.commit([7])
    assert [node.token for node in run_to_write_on(tree, 9, (), ())] == [8, 9]
