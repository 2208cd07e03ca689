"""Nodes that the server drafts itself share the tree with the client's, whatever was in flight, and are never the
client's concern."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.errors import PeerError
from common.protocol.messages import LEAST_LOGP, Grow, GrownNode
from common.protocol.tree import FIRST_SERVER_NODE_ID, TokenTree
from common.protocol.views import Proposal, TreeView
from tests.common.protocol.test_tree import grown, paths


def proposed(parent: int, token: int) -> Proposal:
    return Proposal(parent, token, -1.0)


def planted_paths(view: TreeView, proposals: list[Proposal]) -> list[tuple[int, ...]]:
    """Each proposal as its whole sequence."""
    found = {0: view.tokens}
    for node in view.nodes:
        found[node.id] = (*found[node.parent], node.token)
    for index, proposal in enumerate(proposals, start=1):
        found[-index] = (*found[proposal.parent], proposal.token)
    return [found[-index] for index in range(1, len(proposals) + 1)]


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**31), vocab=st.integers(2, 4))
def test_the_server_holds_the_clients_tree_and_its_own_nodes_whatever_was_in_flight(seed, vocab):
    """The server drafts from views that commits and Grows overtake. Once all have arrived, it holds what the client
    holds, and of its own nodes exactly those that continue the committed sequence; those of a view older than what the
    client has acknowledged may be gone."""
    draw = random.Random(seed)
    client, server = TokenTree([1]), TokenTree([1])
    up: list[Grow] = []
    down: list[list[int]] = []
    drafting: list[tuple[TreeView, list[Proposal]]] = []
    surely: set[tuple[int, ...]] = set()
    perhaps: set[tuple[int, ...]] = set()
    acknowledged = 1

    def client_grows() -> None:
        parents = [0, *(node.id for node in client.nodes())]
        offered = []
        for _ in range(draw.randint(1, 4)):
            offered.append(grown(client.last_id + len(offered) + 1, draw.choice(parents), draw.randrange(vocab)))
            parents.append(offered[-1].id)
        up.append(Grow(0, client.frontier, tuple(client.grown(client.grow(client.frontier, offered)))))

    def server_receives() -> None:
        nonlocal acknowledged
        if up:
            grow = up.pop(0)
            server.grow(grow.frontier, grow.nodes)
            server.forget(grow.frontier)
            acknowledged = max(acknowledged, grow.frontier)

    def server_begins_to_draft() -> None:
        view = server.view()
        parents, proposals = [0, *(node.id for node in view.nodes)], []
        for index in range(1, draw.randint(2, 4)):
            proposals.append(proposed(draw.choice(parents), draw.randrange(vocab)))
            parents.append(-index)
        drafting.append((view, proposals))

    def server_plants() -> None:
        if drafting:
            view, proposals = drafting.pop(0)
            server.add_server_drafted(len(view.tokens), proposals)
            (surely if len(view.tokens) >= acknowledged else perhaps).update(planted_paths(view, proposals))

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

    moves = [client_grows, server_begins_to_draft, server_plants, server_receives, server_commits, client_receives]
    for _ in range(draw.randint(1, 70)):
        draw.choice([client_grows, *moves])()
    while up:
        server_receives()
    while down:
        client_receives()

    def live(those: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
        final = tuple(server.tokens)
        return {path for path in those if len(path) > len(final) and path[: len(final)] == final}

    assert client.tokens == server.tokens
    assert paths(client) | live(surely) <= paths(server) <= paths(client) | live(surely) | live(perhaps)
    assert len(server) == len(paths(server))
    assert server.last_id <= client.last_id, "an id of the server's own was counted as the client's"


def test_a_node_of_the_client_that_says_the_same_becomes_an_alias():
    tree = TokenTree([7])
    (own,) = tree.add_server_drafted(1, [proposed(0, 5)])
    assert [node.id for node in tree.grow(1, [grown(1, 0, 5), grown(2, 1, 6)])] == [2]
    assert paths(tree) == {(7, 5), (7, 5, 6)}
    assert tree.commit([5]) == [own]
    tree.grow(1, [grown(3, 1, 8)])
    assert paths(tree) == {(7, 5, 6), (7, 5, 8)}


def test_what_the_client_has_said_already_is_not_planted_again():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5)])
    fresh = tree.add_server_drafted(1, [proposed(0, 5), proposed(-1, 6), proposed(1, 8)])
    assert [(node.token, node.parent.id) for node in fresh] == [(6, 1), (8, 1)]
    assert len(tree) == 3


def test_a_level_of_an_older_view_goes_on_below_the_committed_path_and_dies_beside_it():
    tree = TokenTree([7])
    right, wrong = tree.add_server_drafted(1, [proposed(0, 5), proposed(0, 4)])
    tree.commit([5])
    fresh = tree.add_server_drafted(1, [proposed(right.id, 6), proposed(wrong.id, 6), proposed(0, 5), proposed(-3, 8)])
    assert [node.token for node in fresh] == [6, 8]
    assert paths(tree) == {(7, 5, 6), (7, 5, 8)}


def test_ids_of_two_levels_differ_and_are_beyond_all_that_clients_may_name():
    tree = TokenTree([7])
    ids = [
        node.id
        for _ in range(3)
        for node in tree.add_server_drafted(1, [proposed(0, token) for token in range(len(tree), 9)])
    ]
    tree.rewrite(1, [3])
    ids += [node.id for node in tree.add_server_drafted(2, [proposed(0, 1), proposed(0, 2)])]
    assert len(set(ids)) == len(ids) > 2
    assert min(ids) >= FIRST_SERVER_NODE_ID


def test_a_client_cannot_hang_a_node_from_one_of_the_servers_own():
    tree = TokenTree([7])
    (own,) = tree.add_server_drafted(1, [proposed(0, 5)])
    with pytest.raises(PeerError, match="never sent"):
        tree.grow(1, [GrownNode(1, own.id, 6, -1.0)])
    assert paths(tree) == {(7, 5)}


def test_planted_nodes_are_scored_and_shown_like_all_others():
    tree = TokenTree([7])
    tree.grow(1, [grown(1, 0, 5, -0.5)])
    tree.add_server_drafted(1, [Proposal(1, 6, -0.25)])
    assert [(node.parent, node.token, node.logp) for node in tree.view().nodes] == [(0, 5, -0.5), (1, 6, -0.75)]


@pytest.mark.parametrize(
    ("said", "believed"), [(-1e300, LEAST_LOGP), (-math.inf, LEAST_LOGP), (math.nan, LEAST_LOGP), (1e9, 0.0)]
)
def test_whatever_a_drafter_says_its_log_probabilities_stay_in_bounds(said, believed):
    tree = TokenTree([1, 2])
    planted = tree.add_server_drafted(2, [Proposal(0, 5, said), Proposal(-1, 6, said)])
    assert [node.score for node in planted] == [believed, 2 * believed]
    assert [node.logp for node in tree.grown(planted)] == [believed, believed]


def test_saying_the_same_again_leaves_nothing_to_remember():
    """However often, of live nodes and of committed positions alike."""
    tree = TokenTree([7])
    first, second = tree.add_server_drafted(1, [proposed(0, 5), proposed(-1, 6)])
    for _ in range(20):
        assert tree.add_server_drafted(1, [proposed(0, 5), proposed(first.id, 6), proposed(-1, 6)]) == []
    assert tree.names == 2
    tree.commit([5])
    for _ in range(20):
        assert tree.add_server_drafted(1, [proposed(0, 5), proposed(-1, 6)]) == []
    assert tree.names == 2
    assert paths(tree) == {(7, 5, 6)}
    assert tree.commit([6]) == [second]
