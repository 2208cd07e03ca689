"""Groups are drawn as their Draw says, and their sizes do not depend on what is drawn."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.drafters.best_first import Expansion
from common.drafters.calibration import drawn_logps
from common.drafters.drawing import choose_groups
from common.protocol.messages import Draw
from common.protocol.views import NodeView, TreeView
from tests.chances import misfit

DRAW = Draw((4, 7, 2, 9), (50, 30, 15, 5))
ROOM = Expansion(breadth=6, children=3, nodes=64, least_probability=1e-9)
BARE = TreeView((1,), ())


def chances(draw, count):
    """The probability of each sequence of `count` tokens drawn without replacement."""
    found = {}
    for tokens in itertools.permutations(range(len(draw.tokens)), count):
        left, chance = sum(draw.weights), 1.0
        for token in tokens:
            chance *= draw.weights[token] / left
            left -= draw.weights[token]
        found[tuple(draw.tokens[token] for token in tokens)] = chance
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_siblings_are_drawn_one_after_another_without_replacement(count):
    expected = chances(DRAW, count)
    counts = dict.fromkeys(expected, 0)
    for seed in range(8_000):
        group = choose_groups(BARE, {0: DRAW}, Expansion(breadth=count, children=3), random.Random(seed))
        counts[tuple(each.token for each in group)] += 1
    assert misfit(list(counts.values()), list(expected.values())) < 1


def test_every_sibling_says_what_it_was_drawn_from_and_how_likely_it_is():
    group = choose_groups(BARE, {0: DRAW}, ROOM, random.Random(3))
    assert [each.draw for each in group] == [DRAW] * 3
    assert all(each.parent == 0 for each in group)
    weights, left, shares = dict(zip(DRAW.tokens, DRAW.weights, strict=True)), sum(DRAW.weights), []
    for each in group:  # of what the siblings before it left
        shares.append(weights[each.token] / left)
        left -= weights[each.token]
    assert [each.logp for each in group] == pytest.approx(drawn_logps(shares))


@st.composite
def levels(draw):
    """A tree, the distributions at its nodes, and limits that some groups exceed."""
    nodes = []
    for id_ in range(1, draw(st.integers(0, 6)) + 1):
        above = draw(st.sampled_from([None, *nodes]))
        parent, score = (0, 0.0) if above is None else (above.id, above.logp)
        logp = score - draw(st.sampled_from([0.1, 0.5, 1.0, 3.0]))
        nodes.append(NodeView(id_, parent, 100 + id_, 1 + (above.position if above else 0), logp))
    offers = {}
    for id_ in draw(st.permutations([0, *(node.id for node in nodes)])):
        tokens = draw(st.lists(st.integers(0, 50), min_size=1, max_size=5, unique=True))
        weights = draw(st.lists(st.integers(1, 4096), min_size=len(tokens), max_size=len(tokens)))
        offers[id_] = Draw(tuple(tokens), tuple(weights))
    bounds = Expansion(draw(st.integers(0, 9)), draw(st.integers(1, 4)), draw(st.integers(4, 12)), 0.02)
    return TreeView((1,), tuple(nodes)), offers, bounds


def sizes(group):
    return [(parent, len(list(siblings))) for parent, siblings in itertools.groupby(group, lambda each: each.parent)]


@given(level=levels(), seeds=st.lists(st.integers(0, 2**31), min_size=2, max_size=4))
def test_how_many_siblings_a_node_gets_does_not_depend_on_what_is_drawn(level, seeds):
    found = [sizes(choose_groups(*level, random.Random(seed))) for seed in seeds]
    assert found == [found[0]] * len(seeds)


@given(level=levels(), seed=st.integers(0, 2**31))
def test_groups_are_whole_follow_one_another_and_fit(level, seed):
    view, offers, expansion = level
    proposals = choose_groups(view, offers, expansion, random.Random(seed))
    groups = sizes(proposals)
    parents = [parent for parent, _ in groups]
    assert len(parents) == len(set(parents)), "siblings that do not follow one another"
    assert len(proposals) <= max(0, expansion.room(view))
    for parent, size in groups:
        drawn = [each for each in proposals if each.parent == parent]
        tokens = {each.token for each in drawn}
        assert len(tokens) == size <= min(expansion.children, len(offers[parent].tokens))
        assert tokens <= set(offers[parent].tokens)
        assert all(each.draw == offers[parent] for each in drawn)
    assert not set(parents) & {node.parent for node in view.nodes}, "a second group below a node"
    worth = {0: 0.0} | {node.id: node.logp for node in view.nodes}
    assert all(worth[parent] >= expansion.least_logp for parent in parents)
    open_ = [id_ for id_ in worth if id_ not in {n.parent for n in view.nodes} and worth[id_] >= expansion.least_logp]
    most = sum(min(expansion.children, len(offers[id_].tokens)) for id_ in open_)
    assert len(proposals) == min(most, max(0, expansion.room(view)))


def test_likelier_nodes_get_more_siblings():
    view = TreeView((1,), (NodeView(5, 0, 3, 1, -0.1), NodeView(6, 0, 4, 1, -2.0)))
    for seed in range(20):
        group = choose_groups(view, {5: DRAW, 6: DRAW}, Expansion(breadth=4, children=3), random.Random(seed))
        assert sizes(group) == [(5, 3), (6, 1)]


def test_offers_of_dead_nodes_are_passed_over():
    assert choose_groups(BARE, {5: DRAW}, ROOM, random.Random(0)) == []


def test_the_same_chance_draws_the_same_groups():
    groups = [choose_groups(BARE, {0: DRAW}, ROOM, random.Random(7)) for _ in range(2)]
    assert groups[0] == groups[1]
    assert len({tuple(p.token for p in choose_groups(BARE, {0: DRAW}, ROOM, random.Random(s))) for s in range(30)}) > 5
    assert np.isfinite([each.logp for each in groups[0]]).all()
