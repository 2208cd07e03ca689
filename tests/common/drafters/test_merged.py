"""Merged drafters propose what their members do, each path once, within the bounds of the tree, whole groups where
siblings are drawn; and know whose proposals were committed."""

import math
import random

import pytest

from common.drafters.best_first import Expansion
from common.drafters.lookup import LookupDrafter
from common.drafters.merged import MergedDrafter
from common.protocol.messages import Draw, StateRequest
from common.protocol.sampling import Sampling
from common.protocol.views import NodeView, Proposal, TreeView
from tests.common.drafters.growing import Growing

ROOT = TreeView((1, 2, 3), ())
HALF = math.log(0.5)


class Scripted:
    """Proposes paths behind the root with their probabilities, parents first; those in the view are left out."""

    def __init__(self, kind, paths, state=None, draw=None):
        self.kind, self.paths, self.state, self.draw = kind, paths, state, draw
        self.expansion = Expansion()
        self.arrived = []

    def draft(self, view, states=()):
        self.arrived += states
        ids = {(): 0}
        above = {0: ()}
        for node in view.nodes:
            above[node.id] = (*above[node.parent], node.token)
            ids[above[node.id]] = node.id
        proposals = []
        for path, logp in self.paths.items():
            if path not in ids and path[:-1] in ids:
                proposals.append(Proposal(ids[path[:-1]], path[-1], logp, self.draw))
                ids[path] = -len(proposals)
        return proposals


def paths_of(proposals):
    """Behind the root, with cumulative log-probabilities."""
    paths, found = {0: ((), 0.0)}, {}
    for index, each in enumerate(proposals, start=1):
        above, logp = paths[each.parent]
        paths[-index] = (*above, each.token), logp + each.logp
        found[paths[-index][0]] = paths[-index][1]
    return found


def test_what_two_propose_is_one_node_and_what_one_proposes_hangs_from_the_others():
    first = Scripted("moa", {(4,): HALF, (5,): 2 * HALF, (4, 6): HALF})
    second = Scripted("lookup", {(4,): HALF / 2, (4, 7): HALF / 2, (4, 7, 8): HALF})
    merged = MergedDrafter([first, second])
    found = paths_of(merged.draft(ROOT))
    # The likeliest proposer's word stands.
    expected = {(4,): HALF / 2, (4, 7): HALF, (5,): 2 * HALF, (4, 6): 2 * HALF, (4, 7, 8): 2 * HALF}
    assert found == pytest.approx(expected)
    assert merged.kind == "moa+lookup"


def test_it_asks_for_the_state_of_the_member_that_needs_any_and_all_get_it():
    members = [Scripted("lookup", {}), Scripted("moa", {}, state=StateRequest("moa"))]
    merged = MergedDrafter(members)
    assert merged.state == StateRequest("moa")
    merged.draft(ROOT, ["a frame"])
    assert [member.arrived for member in members] == [["a frame"], ["a frame"]]


@pytest.mark.parametrize("nodes", [4, 8, 40])
def test_bounds_hold_and_others_than_the_first_have_a_quarter(nodes):
    first = Scripted("moa", {(token,): math.log(0.05) for token in range(10, 26)})
    chain = {tuple(range(100, 100 + length)): math.log(0.99) for length in range(1, 31)}
    merged = MergedDrafter([first, Scripted("lookup", chain)])
    merged.expansion = Expansion(nodes=nodes)
    found = paths_of(merged.draft(ROOT))
    guests = [path for path in found if path[0] >= 100]
    assert len(found) <= nodes
    assert len(guests) == min(nodes // 4, 30)
    assert len(found) - len(guests) == min(nodes - len(guests), 16)
    assert first.expansion.nodes == nodes


def test_a_guest_that_is_too_unlikely_is_left_out():
    merged = MergedDrafter([Scripted("moa", {}), Scripted("lookup", {(4,): HALF, (4, 5): 20 * HALF})])
    merged.expansion = Expansion(least_probability=0.01)
    assert list(paths_of(merged.draft(ROOT))) == [(4,)]


def test_where_no_target_verifies_the_first_writes_alone():
    merged = MergedDrafter([Scripted("moa", {(4,): 4 * HALF}), Scripted("lookup", {(9,): HALF})])
    assert paths_of(merged.draft(TreeView((1, 2, 3), (), alone=True))) == {(4,): 4 * HALF}


def test_it_counts_whose_proposals_were_committed():
    merged = MergedDrafter(
        [Scripted("moa", {(4,): HALF, (4, 6): HALF}), Scripted("lookup", {(4,): HALF, (4, 7): HALF})]
    )
    growing = Growing(merged, [1, 2, 3], 50)
    growing.draft()
    growing.commit([4, 7, 9])
    growing.draft()
    assert merged.committed == [1, 2]
    growing.commit([4, 6])
    growing.draft()
    assert merged.committed == [3, 3]


def test_under_drawn_siblings_each_parent_has_the_group_of_one_member_whole():
    draw = Draw((4, 5, 6), (2, 1, 1))
    first = Scripted("moa", {(4,): HALF, (5,): HALF}, draw=draw)
    second = Scripted("lookup", {(4,): HALF, (4, 7): HALF, (9,): HALF, (9, 1): HALF})
    merged = MergedDrafter([first, second])
    merged.expansion = Expansion(nodes=3)
    sampled = TreeView((1, 2, 3), (), rule="speculative", sampling=Sampling(1.0))
    proposals = merged.draft(sampled)
    assert list(paths_of(proposals)) == [(4,), (5,), (4, 7)]
    assert [each.draw for each in proposals] == [draw, draw, None]
    # No room for a whole group, and none for another below the root.
    merged = MergedDrafter([first, second])
    merged.expansion = Expansion(nodes=2)
    assert list(paths_of(merged.draft(sampled))) == [(4,), (5,)]
    judged = TreeView((1, 2, 3), (NodeView(1, 0, 8, 3, -1.0),), rule="speculative", sampling=Sampling(1.0))
    assert not merged.draft(judged)


@pytest.mark.parametrize("seed", range(20))
def test_trees_of_members_that_copy_stay_whole_over_commits(seed):
    """Parents are always there, and no path comes twice: the session's own checks would raise."""
    draws = random.Random(seed)
    merged = MergedDrafter([LookupDrafter(), Scripted("moa", {(1,): HALF, (1, 2): HALF, (2,): HALF, (2, 2): HALF})])
    growing = Growing(merged, [draws.randrange(3) for _ in range(12)], 3)
    for _ in range(12):
        paths = [path for path, _ in growing.draft()]
        tokens = growing.session.tree.tokens
        live = [[*path] for path in paths]
        assert all(path[: len(tokens)] == tokens for path in live)
        growing.commit([draws.randrange(3) for _ in range(draws.randint(1, 3))])
