"""Merged drafters propose what their members do, each path once, within the bounds of the tree, whole groups where
siblings are drawn; and know whose proposals were committed."""

import math
import random
from dataclasses import replace

import pytest

from common.drafters.best_first import Expansion
from common.drafters.lookup import LookupDrafter
from common.drafters.merged import MergedDrafter
from common.protocol.messages import Draw, State, StateRequest
from common.protocol.sampling import Sampling
from common.protocol.views import NodeView, Proposal, TreeView
from tests.common.drafters.growing import Growing

ROOT = TreeView((1, 2, 3), ())
HALF = math.log(0.5)
ROOMY = Expansion(nodes=320)


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


def paths_of(proposals, nodes=None):
    """Behind the root, with cumulative log-probabilities; from `nodes` of the tree, whose paths are by id, counted from
    there."""
    paths, found = {0: ((), 0.0)} | {id_: (path, 0.0) for id_, path in (nodes or {}).items()}, {}
    for index, each in enumerate(proposals, start=1):
        above, logp = paths[each.parent]
        paths[-index] = (*above, each.token), logp + each.logp
        found[paths[-index][0]] = paths[-index][1]
    return found


def test_what_two_propose_is_one_node_and_what_one_proposes_hangs_from_the_others():
    first = Scripted("moa", {(4,): HALF, (5,): 2 * HALF, (4, 6): HALF})
    second = Scripted("lookup", {(4,): HALF / 2, (4, 7): HALF / 2, (4, 7, 8): HALF})
    merged = MergedDrafter([first, second])
    merged.expansion = ROOMY
    found = paths_of(merged.draft(ROOT))
    # The likeliest proposer's word stands.
    expected = {(4,): HALF / 2, (4, 7): HALF, (5,): 2 * HALF, (4, 6): 2 * HALF, (4, 7, 8): 2 * HALF}
    assert found == pytest.approx(expected)
    assert merged.kind == "moa+lookup"


def hidden(start, count):
    return State(0, start, count, "hidden", "int8", (count, 4), b"")


def test_one_request_for_state_serves_all_members_that_need_any():
    needing = [Scripted(kind, {}, state=StateRequest(kind)) for kind in ("eagle", "hydra")]
    without = Scripted("independent", {})
    merged = MergedDrafter([without, *needing])
    assert merged.state == StateRequest("eagle")
    merged.draft(ROOT, [hidden(0, 2)])
    merged.draft(ROOT, [hidden(2, 1)])
    assert [member.arrived for member in (*needing, without)] == [[hidden(0, 2), hidden(2, 1)]] * 2 + [[]]


@pytest.mark.parametrize("writes_alone", ["eagle", "independent"])
def test_state_that_comes_while_one_writes_alone_reaches_each_other_member_once_and_in_order(writes_alone):
    """The server counts it as delivered and does not send it again."""
    first = Scripted(writes_alone, {}, state=StateRequest("eagle") if writes_alone == "eagle" else None)
    other = Scripted("hydra", {}, state=StateRequest("hydra"))
    copying = Scripted("tandem", {}, state=StateRequest("tandem"))
    merged = MergedDrafter([first, other], [copying])
    alone = replace(ROOT, alone=True)
    merged.draft(ROOT, [hidden(0, 1)])
    merged.draft(alone, [hidden(1, 1)])
    merged.draft(replace(alone, tokens=(*ROOT.tokens, 9), provisional=1), [hidden(2, 1)])
    assert [member.arrived for member in (other, copying)] == [[hidden(0, 1)]] * 2
    merged.draft(replace(ROOT, tokens=(*ROOT.tokens, 4)), [hidden(3, 1)])
    merged.draft(replace(ROOT, tokens=(*ROOT.tokens, 4)))
    every = [hidden(position, 1) for position in range(4)]
    assert [other.arrived, copying.arrived, first.arrived] == [every, every, every if first.state else []]


def test_state_of_what_was_rewritten_meanwhile_reaches_no_other_member():
    first, other = (Scripted(kind, {}, state=StateRequest(kind)) for kind in ("eagle", "hydra"))
    merged = MergedDrafter([first, other])
    merged.draft(replace(ROOT, tokens=tuple(range(9)), alone=True), [hidden(0, 5), hidden(6, 2)])
    merged.draft(replace(ROOT, tokens=(0, 1, 7, 8), alone=True))
    merged.draft(replace(ROOT, tokens=(0, 1, 7, 8)), [hidden(2, 2)])
    assert other.arrived == [replace(hidden(0, 5), count=2), hidden(2, 2)]


@pytest.mark.parametrize("nodes", [4, 8, 40])
def test_bounds_hold_and_guests_have_their_share(nodes):
    first = Scripted("moa", {(token,): math.log(0.05) for token in range(10, 26)})
    chain = {tuple(range(100, 100 + length)): math.log(0.99) for length in range(1, 31)}
    merged = MergedDrafter([first, Scripted("lookup", chain)])
    merged.expansion = Expansion(nodes=nodes)
    found = paths_of(merged.draft(ROOT))
    guests = [path for path in found if path[0] >= 100]
    assert len(found) <= nodes
    assert len(guests) == math.ceil(0.4 * nodes)
    assert len(found) - len(guests) == min(nodes - len(guests), 16)
    assert first.expansion.nodes == nodes


def test_guests_that_are_in_the_tree_already_count_in_their_share():
    chain = {tuple(range(100, 100 + length)): math.log(0.99) for length in range(1, 31)}
    growing = Growing(MergedDrafter([Scripted("moa", {}), Scripted("lookup", chain)]), [1, 2, 3], 300)
    growing.drafter.expansion = Expansion(nodes=20)
    for _ in range(2):
        growing.draft()
        assert len(growing.session.view().nodes) == 8


@pytest.mark.parametrize("nodes", [64, 320])
def test_a_guest_that_is_too_unlikely_is_left_out(nodes):
    merged = MergedDrafter([Scripted("moa", {}), Scripted("lookup", {(4,): HALF, (4, 5): math.log(0.04)})])
    merged.expansion = Expansion(nodes=nodes, least_probability=0.01)
    assert list(paths_of(merged.draft(ROOT))) == [(4,)]


@pytest.mark.parametrize(("nodes", "one_ahead", "several_ahead"), [(320, True, True), (62, True, False)])
def test_a_guest_needs_more_reason_in_a_small_tree_beside_a_host_that_fills_it(nodes, one_ahead, several_ahead):
    guest = Scripted("lookup", {(9,): math.log(0.2)})
    for host, is_taken in ({(4,): HALF}, one_ahead), ({(4,): HALF, (4, 6): HALF}, several_ahead):
        merged = MergedDrafter([Scripted("block", host), guest])
        merged.expansion = Expansion(nodes=nodes)
        assert ((9,) in paths_of(merged.draft(ROOT))) == is_taken


@pytest.mark.parametrize(
    ("guests", "commits", "preferred"),
    [
        ({(5,): 0.5}, [[4], [5]], 5),
        ({(5,): 0.5}, [[4], [4]], 4),
        ({(5,): 0.2}, [[4], [5]], 4),
        ({(5,): 0.5, (6,): 0.01, (6, 7): 0.9}, [[4], [4], [6, 1]], 5),
        ({(5,): 0.5, (4, 7): 0.5}, [[4], [5]], 5),
    ],
    ids=["right", "wrong", "not more than it claims", "not where the host says nothing", "not before the target chose"],
)
def test_a_guest_is_trusted_as_far_as_it_was_right_where_the_host_proposed_something_else(guests, commits, preferred):
    host = {(4,): math.log(0.3), (4, 8): math.log(0.3)}
    guest = Scripted("lookup", {path: math.log(claimed) for path, claimed in guests.items()})
    growing = Growing(MergedDrafter([Scripted("moa", host)], [guest]), [1, 2, 3], 300)
    growing.drafter.expansion = Expansion(nodes=1)
    growing.draft()
    assert [node.token for node in growing.session.view().nodes] == [4]  # at first it is trusted less than it claims
    for tokens in 20 * commits:
        growing.commit(tokens)
        growing.draft()
    assert [node.token for node in growing.session.view().nodes] == [preferred]
    # Only room is given by trust: the target is told what the guest itself thinks.
    logp = math.log(0.5 if preferred == 5 else 0.3)
    assert growing.session.view().nodes[0].logp == pytest.approx(logp)


@pytest.mark.parametrize(
    ("commits", "preferred"), [([4] * 200 + [4, 5] * 100, 5), ([4, 5] * 100 + [4] * 200, 4)], ids=["wrong", "right"]
)
def test_how_right_a_guest_was_long_ago_is_forgotten(commits, preferred):
    members = Scripted("moa", {(4,): math.log(0.3)}), Scripted("lookup", {(5,): HALF})
    growing = Growing(MergedDrafter(members), [1, 2, 3], 600)
    growing.drafter.expansion = Expansion(nodes=1)
    for token in commits:
        growing.draft()
        growing.commit([token])
    growing.draft()
    assert [node.token for node in growing.session.view().nodes] == [preferred]


def test_what_a_draft_wrote_alone_teaches_nothing_of_the_target():
    members = Scripted("moa", {(4,): math.log(0.3)}), Scripted("lookup", {(5,): HALF})
    merged = MergedDrafter(members)
    merged.expansion = Expansion(nodes=1)
    for _ in range(20):
        assert paths_of(merged.draft(ROOT)).keys() == {(4,)}
        merged.draft(TreeView((*ROOT.tokens, 5), (), alone=True, provisional=1))
    assert merged.committed == [0, 0]


def test_the_next_question_teaches_nothing_of_the_target():
    members = Scripted("moa", {(4,): math.log(0.3)}), Scripted("lookup", {(5,): HALF})
    merged = MergedDrafter(members)
    merged.expansion = Expansion(nodes=1)
    tokens, asked = ROOT.tokens, len(ROOT.tokens)
    for _ in range(20):
        assert paths_of(merged.draft(TreeView(tokens, (), prompt_length=asked))).keys() == {(4,)}
        tokens = (*tokens, 5, 9)
        asked = len(tokens)
    assert merged.committed == [0, 0]


def test_what_hangs_from_a_guests_node_comes_behind_it_whoever_proposes_it():
    host, guest = Scripted("moa", {(4,): HALF}), Scripted("hydra", {(9,): HALF})
    merged = MergedDrafter([host, guest], [Scripted("lookup", {(9, 1): HALF / 2})])
    merged.expansion = ROOMY
    assert paths_of(merged.draft(ROOT)).keys() == {(4,), (9,), (9, 1)}


def test_what_is_too_unlikely_for_the_host_is_left_for_later_unless_what_is_proposed_fills_the_tree():
    chances = {(token,): -float(token) for token in range(1, 9)}
    for nodes, taken in (20, 5), (9, 5), (8, 8), (7, 7):
        merged = MergedDrafter([Scripted("moa", chances), Scripted("lookup", {})])
        merged.expansion = Expansion(nodes=nodes, least_probability=1e-12)
        assert len(merged.draft(ROOT)) == taken


def test_a_member_that_copies_sees_what_the_others_propose_and_nothing_twice():
    first = Scripted("moa", {(3,): HALF, (8,): 2 * HALF})
    prompt = TreeView((3, 4, 5, 8, 4, 6, 1), ())
    merged = MergedDrafter([first], [LookupDrafter()])
    merged.expansion = ROOMY
    found = paths_of(merged.draft(prompt))
    assert found.keys() >= {(3,), (8,), (3, 4), (8, 4), (3, 4, 5), (8, 4, 6)}


def test_a_member_that_copies_takes_the_room_of_what_is_less_likely_where_another_would_fill_the_tree():
    first = Scripted("block", {(3,): HALF, (8,): 6 * HALF, (9,): 7 * HALF})
    merged = MergedDrafter([first], [LookupDrafter()])
    merged.expansion = Expansion(nodes=3)
    found = paths_of(merged.draft(TreeView((3, 4, 5, 8, 4, 6, 1), ())))
    assert found.keys() == {(3,), (3, 4), (3, 4, 5)}


def test_what_a_member_thinks_of_anothers_node_now_counts_for_all():
    """It knows nodes anew in each call, as draft state arrives: what it refutes is not continued."""

    class Rescoring(Scripted):
        def draft(self, view, states=()):
            nodes = (node._replace(logp=self.opinion) for node in view.nodes)
            self.rescored = replace(view, nodes=tuple(nodes))
            return super().draft(view, states)

    prompt = (3, 4, 5, 6, 7, 8, 9, 2)
    continued = {}
    for opinion in (HALF, 8 * HALF):
        rescoring = Rescoring("moa", {(3, 20): 2 * HALF})
        rescoring.opinion = opinion
        view = TreeView(prompt, (NodeView(1, 0, 3, len(prompt), HALF),))
        continued[opinion] = paths_of(MergedDrafter([rescoring], [LookupDrafter()]).draft(view), {1: (3,)})
    assert (3, 4) in continued[HALF]
    assert (3, 4) not in continued[8 * HALF]


def test_the_member_that_proposes_most_of_what_is_committed_becomes_the_host():
    paths = {(token,): math.log(0.05) for token in range(10, 26)}
    worse, better = (
        Scripted("one", paths),
        Scripted("other", {(token + 100,): logp for (token,), logp in paths.items()}),
    )
    growing = Growing(MergedDrafter([worse, better]), [1, 2, 3], 300)
    growing.drafter.expansion = Expansion(nodes=20)
    shares = []
    for token in (110, 111):
        growing.draft()
        tokens = [node.token for node in growing.session.view().nodes]
        shares.append(sum(each >= 100 for each in tokens) / len(tokens))
        growing.commit([token])
    assert shares[0] < 0.5 < shares[1]


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


def test_what_was_proposed_for_a_history_that_was_rewritten_is_nobodys():
    first, second = Scripted("moa", {(4,): HALF}), Scripted("lookup", {(9,): HALF})
    merged = MergedDrafter([first, second])
    merged.draft(ROOT)
    first.paths = second.paths = {}
    merged.draft(TreeView((1, 2), ()))
    merged.draft(TreeView((1, 2, 9), ()))
    assert merged.committed == [0, 0]


def test_drawn_siblings_of_all_members_are_one_group_each_whole_and_with_its_own_draw():
    draw = Draw((4, 5, 6), (2, 1, 1))
    first = Scripted("moa", {(4,): HALF, (5,): HALF}, draw=draw)
    second = Scripted("lookup", {(4,): HALF, (4, 7): HALF, (9,): HALF, (9, 1): HALF})
    merged = MergedDrafter([first, second])
    merged.expansion = Expansion(nodes=3)
    sampled = TreeView((1, 2, 3), (), rule="speculative", sampling=Sampling(1.0))
    proposals = merged.draft(sampled)
    assert list(paths_of(proposals)) == [(4,), (5,), (4, 7)]
    assert [each.draw for each in proposals] == [draw, draw, None]
    merged.expansion = Expansion(nodes=8)
    proposals = merged.draft(sampled)
    assert list(paths_of(proposals)) == [(4,), (5,), (9,), (4, 7), (9, 1)]
    assert [each.draw for each in proposals] == [draw, draw, None, None, None]
    assert proposals[2].logp < HALF, "it is tried behind the others"
    # The size of a group counts with what another has proposed already, which depends on what was drawn.
    merged.expansion = Expansion(nodes=2)
    assert list(paths_of(merged.draft(sampled))) == [(4,), (5,)]


def test_no_sibling_joins_a_group_that_is_in_the_tree_already_however_much_room_there_is():
    members = Scripted("moa", {(4,): HALF, (5,): HALF}, draw=Draw((4, 5), (1, 1))), Scripted("lookup", {(9,): HALF})
    begun = TreeView((1, 2, 3), (NodeView(1, 0, 8, 3, -1.0),), rule="speculative", sampling=Sampling(1.0))
    merged = MergedDrafter(members)
    merged.expansion = ROOMY
    assert not merged.draft(begun)


def test_a_guest_that_picks_needs_good_reason_to_do_so_alone_under_drawn_siblings():
    draw = Draw((4, 5), (1, 1))
    unlikely = Scripted("lookup", {(4,): HALF, (5,): HALF, (9,): 2 * HALF, (4, 7): 2 * HALF, (5, 8): HALF})
    merged = MergedDrafter([Scripted("moa", {(4,): HALF, (5,): HALF}, draw=draw), unlikely])
    proposals = merged.draft(TreeView((1, 2, 3), (), rule="speculative", sampling=Sampling(1.0)))
    assert list(paths_of(proposals)) == [(4,), (5,), (9,), (5, 8)]


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
