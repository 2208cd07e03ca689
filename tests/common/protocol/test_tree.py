"""The identity rule: both sides hold one tree, whatever was in flight when tokens were committed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.errors import PeerError
from common.protocol.messages import Grow, GrownNode
from common.protocol.tree import TokenTree


def grown(id_: int, parent: int, token: int, logp: float = -1.0) -> GrownNode:
    return GrownNode(id_, parent, token, logp)


def paths(tree: TokenTree) -> set[tuple[int, ...]]:
    """Every live node as the whole sequence that it would make."""
    found = {tree.root: tuple(tree.tokens)}
    for node in tree.nodes():
        found[node] = (*found[node.parent], node.token)
    del found[tree.root]
    return set(found.values())


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**31), vocab=st.integers(2, 4))
def test_both_copies_are_one_tree_whatever_was_in_flight(seed, vocab):
    """The client grows while commits travel down and Grows travel up; once all has arrived, both hold the same
    nodes. So nodes under a bonus token survive the commit that chose it."""
    draw = random.Random(seed)
    client, server = TokenTree([1]), TokenTree([1])
    up: list[Grow] = []
    down: list[list[int]] = []

    def client_grows() -> None:
        parents = [0, *(node.id for node in client.nodes())]
        offered = []
        for _ in range(draw.randint(1, 4)):
            offered.append(grown(client.last_id + len(offered) + 1, draw.choice(parents), draw.randrange(vocab)))
            parents.append(offered[-1].id)
        fresh = client.grow(client.frontier, offered)
        up.append(Grow(0, client.frontier, tuple(client.grown(fresh))))

    def server_receives() -> None:
        if up:
            grow = up.pop(0)
            server.grow(grow.frontier, grow.nodes)
            server.forget(grow.frontier)

    def server_commits() -> None:
        at, tokens = server.root, []
        while draw.random() < 0.7 and at.children:
            tokens.append(draw.choice(list(at.children)))
            at = at.children[tokens[-1]]
        tokens.append(draw.randrange(vocab))
        server.commit(tokens)
        down.append(tokens)

    def client_receives() -> None:
        if down:
            client.commit(down.pop(0))

    for _ in range(draw.randint(1, 60)):
        draw.choice([client_grows, client_grows, server_receives, server_commits, client_receives])()
    while up:
        server_receives()
    while down:
        client_receives()
    assert client.tokens == server.tokens
    assert paths(client) == paths(server)
    assert len(client) == len(paths(client))
    assert len(server) == len(paths(server))


def test_nodes_under_the_bonus_token_survive_the_commit_that_chose_it():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5), grown(2, 1, 6), grown(3, 0, 8)])
    carried = tree.commit([5])
    assert [node.id for node in carried] == [1]
    assert paths(tree) == {(7, 5, 6)}


def test_an_older_parent_aliases_the_committed_path():
    tree = TokenTree([7])
    tree.commit([5, 6])
    fresh = tree.grow(1, [grown(1, 0, 5), grown(2, 1, 6), grown(3, 2, 9)])
    assert [node.id for node in fresh] == [3]
    assert paths(tree) == {(7, 5, 6, 9)}
    assert tree.stale == 0


def test_a_node_off_the_committed_path_is_dead_and_so_are_its_descendants():
    tree = TokenTree([7])
    tree.commit([5])
    assert tree.grow(1, [grown(1, 0, 4), grown(2, 1, 5), grown(3, 2, 5)]) == []
    assert tree.stale == 3
    assert len(tree) == 0


def test_a_twin_aliases_the_live_child():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5), grown(2, 0, 5), grown(3, 2, 6)])
    assert paths(tree) == {(7, 5), (7, 5, 6)}
    tree.commit([5])
    tree.grow(1, [grown(4, 2, 8)])
    assert paths(tree) == {(7, 5, 6), (7, 5, 8)}


def test_a_parent_never_seen_breaks_the_protocol_and_a_forgotten_one_is_stale():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5)])
    with pytest.raises(PeerError, match="node 2 hangs from node 9, which was never sent"):
        tree.grow(1, [grown(2, 9, 5)])
    with pytest.raises(PeerError, match="never sent"):
        tree.grow(1, [grown(2, 2, 5)])
    tree.commit([5, 6])
    tree.forget(3)
    assert tree.grow(3, [grown(2, 1, 6)]) == []
    assert tree.stale == 1


def test_a_frontier_ahead_of_the_sequence_breaks_the_protocol():
    with pytest.raises(PeerError, match="frontier 3"):
        TokenTree([7]).grow(3, [])


def test_repeated_ids_are_ignored():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5)])
    assert tree.grow(1, [grown(1, 0, 6)]) == []
    assert paths(tree) == {(7, 5)}


def test_renumbering_keeps_the_tree_and_sends_it_whole():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5, -0.5), grown(2, 1, 6, -0.25), grown(3, 0, 8, -2.0)])
    other = TokenTree([7])
    other.grow(1, tree.renumber())
    assert paths(other) == paths(tree)
    assert all(node.id > 3 for node in tree.nodes())


def test_a_view_gives_cumulative_log_probabilities_from_the_root():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5, -0.5), grown(2, 1, 6, -0.25)])
    tree.commit([5])
    (node,) = tree.view().nodes
    assert (node.parent, node.token, node.position, node.logp) == (0, 6, 2, -0.25)


def test_rewriting_history_drops_every_node_and_keeps_ids_seen():
    tree = TokenTree([7, 8, 9])
    tree.grow(3, [grown(4, 0, 5)])
    tree.rewrite(1, [2])
    assert tree.tokens == [7, 2]
    assert len(tree) == 0
    assert tree.grow(2, [grown(5, 4, 1)]) == []
