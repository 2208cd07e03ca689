"""Proposals that a constraint forbids are dropped with what hangs from them; the others keep their places, and bring
the tokens with them that leave no choice."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.drafters.constrained import allowed_proposals, with_forced
from common.protocol.views import NodeView, Proposal, TreeView


class Rising:
    """Allows tokens above the last one of the answer."""

    def allowed(self, answer):
        return np.arange(10) > (answer[-1] if answer else -1)

    def forced(self, answer, most):
        """The last token leaves no choice."""
        return (9,)[:most] if answer and answer[-1] == 8 else ()


def path_of(view: TreeView, proposals, proposal) -> list[int]:
    """The answer's tokens up to a proposal, its own included."""
    nodes = {node.id: node for node in view.nodes}
    path, parent = [proposal.token], proposal.parent
    while parent:
        above = proposals[-parent - 1] if parent < 0 else nodes[parent]
        path.append(above.token)
        parent = above.parent
    return [*view.tokens[view.prompt_length :], *path[::-1]]


@given(data=st.data())
def test_exactly_the_rising_paths_are_left_and_each_stays_what_it_was(data):
    tokens = st.integers(0, 9)
    nodes = (NodeView(1, 0, 4, 3, -0.1), NodeView(2, 1, 6, 4, -0.2))
    view = TreeView((9, 9, 3), nodes, prompt_length=2, constraint=Rising())
    count = data.draw(st.integers(0, 8))
    proposals = [
        Proposal(data.draw(st.sampled_from([0, 1, 2, *range(-index, 0)])), data.draw(tokens), -index / 10)
        for index in range(count)
    ]
    expected = [path for each in proposals if (path := path_of(view, proposals, each)) == sorted(set(path))]
    kept = allowed_proposals(view, proposals)
    assert [path_of(view, kept, each) for each in kept] == expected
    assert [each.logp for each in kept] == [
        each.logp for each in proposals if path_of(view, proposals, each) in expected
    ]
    assert allowed_proposals(TreeView((9, 9, 3), nodes), proposals) == proposals


def test_what_leaves_no_choice_comes_with_its_proposal_while_there_is_room():
    view = TreeView((9, 9, 3), (NodeView(1, 0, 4, 3, -0.1),), prompt_length=2, constraint=Rising())
    level = [Proposal(1, 8, -0.5), Proposal(1, 5, -0.6), Proposal(0, 8, -0.7)]
    forced = [Proposal(-1, 9, 0.0), Proposal(-3, 9, 0.0)]
    assert with_forced(view, level, 5) == [*level, *forced]
    assert with_forced(view, level, 1) == [*level, forced[0]]
    assert with_forced(view, level, 0) == level
    assert with_forced(replace(view, constraint=None), level, 5) == level


def test_of_a_chain_only_the_end_brings_what_leaves_no_choice():
    view = TreeView((9, 9, 3), (), prompt_length=2, constraint=Rising())
    chain = [Proposal(0, 5, -0.1), Proposal(-1, 8, -0.2)]
    assert with_forced(view, chain, 5) == [*chain, Proposal(-2, 9, 0.0)]
    whole = [*chain, Proposal(-2, 9, -0.3)]
    assert with_forced(view, whole, 5) == whole, "the forced token is there already"
