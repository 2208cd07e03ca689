import pytest

from common.protocol.messages import GrownNode, Settings
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.tree import TokenTree
from tests.common.protocol.rules.rows import Choices


def walk(rule, nodes, choices, processed=None):
    """`nodes` are (parent, token); `choices` those of the root and of each node that the pass processed."""
    tree = TokenTree([9])
    # The later, the less likely: so rows are in the order of `nodes`.
    tree.grow(1, [GrownNode(i + 1, parent, token, -1.0 - i) for i, (parent, token) in enumerate(nodes)])
    rows = range(1, 1 + (len(nodes) if processed is None else processed))
    return RULES[rule].walk(make_verify_input(tree, rows, Settings(9, rule)), Choices(choices))


both = pytest.mark.parametrize("rule", ["greedy", "coupled"])


@both
def test_it_steps_down_while_a_processed_child_carries_the_choice(rule):
    assert walk(rule, [(0, 1), (1, 2), (0, 3)], [1, 2, 7, 8]) == [1, 2, 7]


@both
def test_it_stops_at_the_first_choice_without_a_child(rule):
    assert walk(rule, [(0, 1), (1, 2)], [4, 2, 7]) == [4]


@both
def test_a_child_that_this_pass_did_not_process_is_the_bonus_token(rule):
    assert walk(rule, [(0, 1), (1, 2)], [1, 2], processed=1) == [1, 2]
