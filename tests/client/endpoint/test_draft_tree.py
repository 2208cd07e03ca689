"""What the page is told of drafting, from nodes and commits."""

import pytest

from client.endpoint.draft_tree import MOST_NODES, CommitRecord, tree_as_rows
from common.protocol.views import NodeView


def node(id_: int, parent: int, token: str, logp: float) -> NodeView:
    return NodeView(id_, parent, ord(token), 7, logp)


def test_each_node_stands_above_those_below_it_and_the_likelier_sibling_first():
    nodes = [
        node(4, 0, "d", -2.0),
        node(5, 0, "a", -0.1),
        node(6, 5, "c", -3.0),
        node(7, 5, "b", -0.2),
        node(8, 7, "x", -1),
    ]
    assert tree_as_rows(nodes, chr) == [[0, "a", 0.9], [1, "b", 0.82], [2, "x", 0.37], [1, "c", 0.05], [0, "d", 0.14]]
    assert tree_as_rows([], chr) == []


def test_a_large_tree_is_told_from_its_root_on():
    chain = [node(index, index - 1, "a", -0.001 * index) for index in range(1, MOST_NODES + 50)]
    assert [depth for depth, _, _ in tree_as_rows(chain, chr)] == list(range(MOST_NODES))


def test_a_probability_is_one_whatever_rounding_did():
    assert tree_as_rows([node(1, 0, "a", 1e-9)], chr) == [[0, "a", 1.0]]


@pytest.mark.parametrize("drafted", [0, 1, 3])
def test_a_commit_tells_what_had_been_drafted(drafted):
    told = CommitRecord(1.234, tuple(map(ord, "fox")), drafted).as_dict(chr)
    assert told == {"at_s": 1.23, "drafted": list("fox"[:drafted]), "decided": list("fox"[drafted:])}
