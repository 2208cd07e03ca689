"""What is shown before it is committed, and what of it is retracted."""

from client.drafting.provisional import ProvisionalCount, likeliest_run
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
