"""What a pass reads: nobody writes it, and each session's tokens of a pass are their own identity."""

import dataclasses

import numpy as np
import pytest

from common.protocol.messages import GrownNode, Settings
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.sampling import Sampling
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


@pytest.mark.parametrize("chain", [(9,), (4, 7, 9)])
def test_logits_are_wanted_of_the_root_and_of_each_node_and_each_hangs_from_a_row_before_it(chain, tree):
    verify_input = make_verify_input(tree, range(1, 1 + len(tree)), Settings(9))
    whole = ScheduledTokens(0, chain, verify_input, 0)
    root = len(chain) - 1
    assert len(whole) == len(whole.tokens) == len(whole.parents)
    assert list(whole.wanted) == [root, root + 1, root + 2]
    assert [list(whole.tokens)[row] for row in whole.wanted] == [9, 6, 5]
    assert list(whole.parents) == [*range(-1, root), root, root]
    assert whole.is_of_prompt == (len(chain) > 1)


def test_what_ends_above_the_root_wants_no_logits():
    part = ScheduledTokens(0, (4,), None, 0)
    assert (list(part.wanted), list(part.parents), part.nodes, part.path([4])) == ([], [-1], 0, ())
    assert part.is_of_prompt


class Anything:
    """A constraint that allows everything."""

    def allowed(self, answer):
        return np.ones(9, dtype=bool)

    def forced(self, answer, most):
        return ()


@pytest.mark.parametrize(
    ("sampling", "constraint", "looks_back"),
    [
        (Sampling(), None, False),
        (Sampling(1.0), None, False),
        (Sampling(), Anything(), True),
        (Sampling(repetition_penalty=1.1), None, True),
        (Sampling(presence_penalty=0.5), Anything(), True),
    ],
)
def test_a_pass_reads_the_tokens_before_it_only_for_penalties_and_constraints(tree, sampling, constraint, looks_back):
    """A long sequence is copied for each pass otherwise."""
    for nodes in (range(1, 3), [2, 1]):
        rows = make_verify_input(tree, nodes, Settings(9, sampling=sampling), constraint=constraint)
        assert rows.seen == ((9,) if looks_back else ())
