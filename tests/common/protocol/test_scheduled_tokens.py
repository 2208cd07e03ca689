"""What a pass reads: nobody writes it, and each session's tokens of a pass are their own identity."""

import dataclasses

import numpy as np
import pytest

from common.protocol.messages import GrownNode, Settings
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.tree import TokenTree


def scheduled(tree: TokenTree) -> ScheduledTokens:
    verify_input = make_verify_input(tree, range(1, 1 + len(tree)), Settings(9))
    return ScheduledTokens(0, (9,), verify_input, 0, np.arange(3), np.arange(2))


@pytest.fixture
def tree() -> TokenTree:
    tree = TokenTree([9])
    tree.grow(1, [GrownNode(1, 0, 5, -1.0), GrownNode(2, 0, 6, -0.5)])
    return tree


def test_likelier_siblings_come_first(tree: TokenTree) -> None:
    assert list(scheduled(tree).tokens) == [9, 6, 5]


def test_neither_a_pass_nor_its_session_writes_what_both_read(tree: TokenTree) -> None:
    own = scheduled(tree)
    arrays = [np.asarray(own.tokens), np.asarray(own.parents)]
    arrays += [
        each for field in dataclasses.fields(tree.rows) if hasattr(each := getattr(tree.rows, field.name), "flags")
    ]
    assert len(arrays) == 7
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[1] = 7


def test_two_that_hold_the_same_are_two(tree: TokenTree) -> None:
    first, second = scheduled(tree), scheduled(tree)
    assert first != second
    assert second not in [first]
    assert len({first, second}) == 2
