"""What is offered before it is committed, and what of it is taken back."""

from client.provisional import ProvisionalTally, likeliest_run
from common.protocol.messages import GrownNode
from common.protocol.tree import TokenTree


def test_the_run_follows_the_likeliest_child_of_each_level():
    tree = TokenTree([1])
    tree.grow(1, [GrownNode(1, 0, 5, -2.0), GrownNode(2, 0, 6, -0.1), GrownNode(3, 2, 7, -1.0), GrownNode(4, 1, 8, 0)])
    assert likeliest_run(tree, 5) == (6, 7)


def test_nothing_is_offered_beyond_the_end_of_the_answer():
    tree = TokenTree([1])
    tree.grow(1, [GrownNode(1, 0, 5, -0.1), GrownNode(2, 1, 6, -0.1)])
    assert likeliest_run(tree, 1) == (5,)
    assert likeliest_run(tree, 0) == ()


def test_offered_tokens_count_once_and_replaced_ones_are_retracted():
    tally = ProvisionalTally()
    tally.update((), (5, 6))
    tally.update((), (5, 6, 7))
    tally.update((5,), (6, 7))
    assert (tally.offered, tally.retracted) == (3, 0)
    tally.update((6, 9), (4,))
    assert (tally.offered, tally.retracted) == (4, 1)
    tally.update((), ())
    assert (tally.offered, tally.retracted) == (4, 2)
