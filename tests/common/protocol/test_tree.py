"""The identity rule: both sides hold one tree, whatever was in flight when tokens were committed."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.errors import PeerError
from common.protocol.messages import Draw, Grow, GrownNode
from common.protocol.tree import TokenTree


def grown(id_: int, parent: int, token: int, logp: float = -1.0) -> GrownNode:
    return GrownNode(id_, parent, token, logp)


def paths(tree: TokenTree) -> set[tuple[int, ...]]:
    """Every live node as its whole sequence."""
    found = {tree.root: tuple(tree.tokens)}
    for node in tree.nodes():
        found[node] = (*found[node.parent], node.token)
    del found[tree.root]
    return set(found.values())


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**31), vocab=st.integers(2, 4), context=st.sampled_from([5, math.inf]))
def test_both_copies_are_one_tree_whatever_was_in_flight(seed, vocab, context):
    """The client grows while commits travel down and Grows travel up; once all have arrived, both hold the same nodes.
    So nodes under a bonus token survive the commit that chose it."""
    draw = random.Random(seed)
    client, server = TokenTree([1], context), TokenTree([1], context)
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
    assert max(map(len, paths(client)), default=0) <= context
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


# Trees of groups.


def tree_of_groups(tokens: list[int] | None = None) -> TokenTree:
    tree = TokenTree(tokens or [7])
    tree.grouped = True
    return tree


def ordered_paths(tree: TokenTree) -> list[tuple[int, ...]]:
    """As `paths`, siblings in their order and parents first."""
    found = {tree.root: tuple(tree.tokens)}
    for node in tree.nodes():
        found[node] = (*found[node.parent], node.token)
    return list(found.values())[1:]


def test_a_later_group_below_a_node_is_dead_but_for_the_tokens_that_are_there():
    tree = tree_of_groups()
    tree.grow(1, [grown(1, 0, 5), grown(2, 0, 6)])
    assert tree.grow(1, [grown(3, 0, 8), grown(4, 0, 6), grown(5, 3, 1)]) == []
    assert tree.stale == 2
    fresh = tree.grow(1, [grown(6, 4, 9)])
    assert [node.id for node in fresh] == [6]
    assert ordered_paths(tree) == [(7, 5), (7, 6), (7, 6, 9)]


def test_two_names_of_one_parent_in_one_grow_do_not_mix_groups():
    one, other = Draw((8,), (1,)), Draw((9,), (1,))
    for named, paths in (2, [(7, 5), (7, 5, 8)]), (1, [(7, 5), (7, 5, 8), (7, 5, 9)]):
        tree = tree_of_groups()
        tree.grow(1, [grown(1, 0, 5), grown(2, 0, 5)])
        tree.grow(1, [GrownNode(3, 1, 8, -1.0, one), GrownNode(4, named, 9, -1.0, other)])
        assert ordered_paths(tree) == paths


def test_without_groups_a_later_sibling_joins():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5)])
    tree.grow(1, [grown(2, 0, 6)])
    assert ordered_paths(tree) == [(7, 5), (7, 6)]


def test_a_group_stays_one_when_its_parent_is_committed():
    tree = tree_of_groups()
    tree.grow(1, [grown(1, 0, 5), grown(2, 1, 8), grown(3, 1, 9)])
    tree.commit([5])
    assert tree.grow(2, [grown(4, 0, 3)]) == []
    assert tree.grow(1, [grown(5, 1, 3)]) == []
    assert ordered_paths(tree) == [(7, 5, 8), (7, 5, 9)]
    tree.commit([3])
    assert [node.token for node in tree.grow(3, [grown(6, 0, 1), grown(7, 0, 2)])] == [1, 2]


def test_siblings_keep_their_order_and_their_draws_under_new_ids():
    draw = Draw((5, 6, 8), (1, 1, 1))
    tree = tree_of_groups()
    tree.grow(1, [GrownNode(1, 0, 8, -3.0, draw), GrownNode(2, 0, 5, -1.0, draw), GrownNode(3, 0, 6, -2.0, draw)])
    tree.grow(1, [grown(4, 2, 9), grown(5, 2, 1), grown(6, 3, 4), grown(7, 1, 4), grown(8, 1, 3)])
    other = tree_of_groups()
    other.grow(1, tree.renumber())
    assert ordered_paths(other) == ordered_paths(tree)
    assert [node.token for node in other.root.children.values()] == [8, 5, 6]
    assert [node.draw for node in other.root.children.values()] == [draw] * 3
    # They are still one group: nothing is added to it.
    assert other.grow(1, [grown(20, 0, 2)]) == []


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**31), vocab=st.integers(2, 5))
def test_both_copies_hold_the_same_groups_in_the_same_order_whatever_was_in_flight(seed, vocab):
    """As above, with groups (several for one node among them), and streams that break and send the tree again."""
    draw = random.Random(seed)
    client, server = tree_of_groups([1]), tree_of_groups([1])
    up: list[Grow] = []
    down: list[list[int]] = []

    def client_grows() -> None:
        # Like a drafter with an old view, it may name ids that are dead or committed by now.
        frontier = draw.randint(max(1, client.frontier - 2), client.frontier)
        parents = [0, *(node.id for node in client.nodes()), *range(max(1, client.last_id - 2), client.last_id + 1)]
        offered = []
        for parent in draw.sample(parents, min(len(parents), draw.randint(1, 3))):
            for token in draw.sample(range(vocab), draw.randint(1, min(3, vocab))):
                offered.append(grown(client.last_id + len(offered) + 1, parent, token))
        fresh = client.grow(frontier, offered)
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

    def stream_breaks() -> None:
        server.rewrite(server.frontier, ())
        up[:] = [Grow(0, client.frontier, tuple(client.renumber()))]
        down[:] = [server.tokens[client.frontier :]] if server.frontier > client.frontier else []

    usual = [client_grows, client_grows, server_receives, server_commits, client_receives] * 3
    for _ in range(draw.randint(1, 60)):
        draw.choice([*usual, stream_breaks])()
    while up:
        server_receives()
    while down:
        client_receives()
    assert client.tokens == server.tokens
    assert ordered_paths(client) == ordered_paths(server)
    assert len(client) == len(server) == len(paths(server))
