from common.protocol.messages import GrownNode
from common.protocol.rules import RULES
from common.protocol.tree import TokenTree


def tree_of(*nodes):
    tree = TokenTree([9])
    fresh = tree.grow(1, [GrownNode(i + 1, parent, token, -1.0) for i, (parent, token) in enumerate(nodes)])
    return tree, fresh


def test_it_steps_down_while_a_processed_child_carries_the_choice():
    tree, (a, b, c) = tree_of((0, 1), (1, 2), (0, 3))
    assert RULES["greedy"](tree.root, {tree.root: 1, a: 2, b: 7, c: 8}) == [1, 2, 7]


def test_it_stops_at_the_first_choice_without_a_child():
    tree, (a, b) = tree_of((0, 1), (1, 2))
    assert RULES["greedy"](tree.root, {tree.root: 4, a: 2, b: 7}) == [4]


def test_a_child_that_this_pass_did_not_process_is_the_bonus_token():
    tree, (a, _) = tree_of((0, 1), (1, 2))
    assert RULES["greedy"](tree.root, {tree.root: 1, a: 2}) == [1, 2]
