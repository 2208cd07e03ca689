"""What the server drafts for a session itself: when, from which view, and what becomes of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import Ack, Cancel, Commit, Constraint, Extend, Opened, Settings, StateRequest
from common.protocol.pass_timings import PassTimings
from common.protocol.sampling import Sampling
from common.protocol.server_session import ServerSession
from common.protocol.tree import FIRST_SERVER_NODE_ID
from common.protocol.views import Proposal
from tests.common.protocol.fakes import VOCAB, terms
from tests.common.protocol.test_server_session import SETTINGS, grow, open_frame, run_pass

ASSISTING = ("assist", "auto", "colocated")


def assisted(idle="assist", pass_timings=None, settings=SETTINGS, **changes) -> ServerSession:
    """A session that has computed its prompt and the first token, on a server that drafts six levels a pass."""
    server = ServerSession(
        open_frame(settings=settings), terms(idle, **{"server_drafts": True, **changes}), 0.0, pass_timings or busy()
    )
    run_pass(server, [4])
    return server


def busy(levels_per_pass=6.0) -> PassTimings:
    pass_timings = PassTimings()
    pass_timings.pass_ended(0.6)
    pass_timings.level_drafted(0.6 / levels_per_pass)
    return pass_timings


def level(*tokens, logp=-0.1, parent=0) -> list[Proposal]:
    return [Proposal(parent, token, logp) for token in tokens]


@pytest.mark.parametrize("idle", ASSISTING)
def test_a_drafted_level_meets_the_target_in_the_next_pass(idle):
    server = assisted(idle)
    view = server.server_draft_view(in_pass=False)
    assert view.tokens == (1, 2, 3, 4)
    server.add_server_draft(0, view, [*level(5), Proposal(-1, 2, -0.1)])
    assert run_pass(server, [5, 2, 3]).replies == (Commit(0, 4, (5, 2, 3)),)


def test_the_view_shows_no_position_that_the_target_does_not_have():
    server = assisted(context=8)
    view = server.server_draft_view(in_pass=False)
    server.add_server_draft(0, view, [Proposal(-depth, 5, -0.1) for depth in range(6)])
    assert max(node.position for node in server.server_draft_view(in_pass=False).nodes) == 7
    chain = grow(4, (1, 0, 2, -0.1), *((id_, id_ - 1, 2, -0.1) for id_ in range(2, 7)))
    server.receive(chain, 1.0)
    assert max(node.position for node in server.tree.nodes()) == 7
    assert server.tree.last_id == 6
    server.reopen(open_frame((1, 2, 3, 5), 3), 2.0)  # another token, so that the tree is made anew
    server.receive(chain, 3.0)
    assert max(node.position for node in server.tree.nodes()) == 7


def test_the_view_says_how_the_target_will_choose():
    sampling = Sampling(0.8, top_k=3, seed=5)
    server = assisted(settings=Settings(20, rule="coupled", sampling=sampling))
    view = server.server_draft_view(in_pass=False)
    assert (view.rule, view.sampling) == ("coupled", sampling)


class EvenTokens:
    """A constraint that both ends know."""

    def allowed(self, answer):
        return np.arange(VOCAB) % 2 == 0

    def forced(self, answer, most):
        return ()


def test_both_ends_draft_from_the_same_view():
    """So that a drafter proposes the same on either, under a constraint too."""
    even = EvenTokens()
    settings = Settings(20, "coupled", sampling=Sampling(0.8, top_k=3, seed=5), constraint=Constraint("regex", "b*"))
    client = ClientSession("a client's name.", Limits("f" * 64, VOCAB, 256, 64, constrain=lambda _: even))
    server = ServerSession(
        client.open((1, 2, 3), settings), terms("assist", server_drafts=True, constrain=lambda _: even), 0.0, busy()
    )
    client.receive(Opened(client.id))
    (commit,) = run_pass(server, [4]).replies
    client.receive(commit)
    view = server.server_draft_view(in_pass=False)
    assert view == client.view()
    assert (view.prompt_length, view.constraint) == (3, even)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (assisted("eager"), "the client asked for another policy"),
        (assisted(server_drafts=False), "the server cannot draft"),
        (ServerSession(open_frame(), terms("assist", server_drafts=True), 0.0), "its prompt is not computed yet"),
        (assisted(settings=Settings(20, rule="speculative", sampling=Sampling(0.8))), "its siblings are groups"),
        (assisted(settings=Settings(1)), "its answer is over"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_there_is_nothing_to_draft_where(server, why):
    assert server.server_draft_view(in_pass=False) is None, why


@pytest.mark.parametrize("idle", ASSISTING)
def test_a_tree_of_groups_is_neither_planted_into_nor_waited_for(idle):
    server = assisted(idle, settings=Settings(20, rule="speculative", sampling=Sampling(0.8)))
    assert not server.wants_server_drafting
    assert server.due() == 1.0


@pytest.mark.parametrize(("idle", "drafts"), [("assist", True), ("auto", True), ("colocated", False)])
def test_while_a_pass_runs_only_policies_that_overlap_are_drafted_for(idle, drafts):
    assert (assisted(idle).server_draft_view(in_pass=True) is not None) is drafts


def test_the_server_waits_for_its_own_level_and_goes_on_once_more_would_add_too_little():
    server = assisted()
    assert server.due() > 1.0
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5, logp=-4.0))
    assert server.due() == 1.0


def test_a_drafter_with_nothing_to_propose_rests_until_the_next_commit():
    server = assisted()
    server.add_server_draft(0, server.server_draft_view(in_pass=False), [])
    assert server.server_draft_view(in_pass=False) is None
    assert server.due() == 1.0
    run_pass(server, [5], now=2.0)
    assert server.server_draft_view(in_pass=False) is not None
    assert server.due() > 2.0


def test_an_empty_level_of_an_older_frontier_puts_nobody_to_rest():
    server = assisted()
    view = server.server_draft_view(in_pass=True)
    run_pass(server, [5], now=2.0)
    server.add_server_draft(0, view, [])
    assert server.server_draft_view(in_pass=False) is not None


def test_a_level_that_a_commit_overtook_goes_on_below_it():
    server = assisted()
    view = server.server_draft_view(in_pass=True)
    run_pass(server, [5], now=2.0)
    server.add_server_draft(0, view, [*level(5, 3), Proposal(-1, 2, -0.1)])
    assert list(server.plan(64).verify_input.tokens[1:]) == [2]


@pytest.mark.parametrize("over", [False, True])
def test_a_level_of_an_earlier_turn_is_dropped(over):
    server = assisted()
    view = server.server_draft_view(in_pass=False)
    server.receive(Cancel(0), 2.0)
    if not over:
        server.receive(Extend(1, 4, (2,), SETTINGS), 2.0)
    server.add_server_draft(0, view, level(5))
    assert len(server.tree) == 0


def test_without_help_the_session_goes_on_at_once():
    server = assisted()
    assert server.due() > 1.0
    server.stop_server_drafting()
    assert server.server_draft_view(in_pass=False) is None
    assert server.due() == 1.0


def test_help_that_failed_in_one_answer_is_not_sought_in_the_next():
    server = assisted()
    server.stop_server_drafting()
    server.receive(Cancel(0), 2.0)
    server.receive(Extend(1, 4, (2,), SETTINGS), 2.0)
    run_pass(server, [5])
    assert server.server_draft_view(in_pass=False) is None


def test_the_server_plants_no_more_than_it_may_and_leaves_the_client_all_its_own():
    server = assisted(max_server_drafted_nodes=3, max_nodes=4)
    view = server.server_draft_view(in_pass=False)
    server.add_server_draft(0, view, level(1, 2, 3, 4, 5))
    assert len(server.tree) == 3
    assert server.server_draft_view(in_pass=False) is None
    server.receive(grow(4, (1, 0, 4, -0.1), (2, 1, 1, -0.1), (3, 1, 2, -0.1), (4, 1, 3, -0.1)), 2.0)
    assert len(server.tree) == 3 + 4
    with pytest.raises(PeerError, match="more than the 7 allowed"):
        server.receive(grow(4, (5, 1, 5, -0.1)), 2.0)


def test_a_level_that_was_begun_before_the_client_filled_the_tree_is_cut():
    server = assisted(max_server_drafted_nodes=3, max_nodes=4)
    view = server.server_draft_view(in_pass=False)
    server.receive(grow(4, (1, 0, 4, -0.1), (2, 1, 1, -0.1)), 2.0)
    server.add_server_draft(0, view, level(1, 2, 3))
    assert sorted(node.token for node in server.tree.root.children.values()) == [1, 4]


def test_a_server_that_plants_nothing_lends_its_room_to_nobody():
    server = assisted("eager", max_server_drafted_nodes=3, max_nodes=4)
    server.receive(grow(4, *((i, i - 1, 4, -0.1) for i in range(1, 5))), 2.0)
    with pytest.raises(PeerError, match="more than the 4 allowed"):
        server.receive(grow(4, (5, 4, 4, -0.1)), 2.0)


def test_commits_name_the_clients_newest_node_and_never_the_servers_own():
    server = assisted()
    server.receive(grow(4, (7, 0, 5, -0.1)), 2.0)
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(4))
    (commit,) = run_pass(server, [1, 1, 1]).replies
    assert commit.seen == 7


@pytest.mark.parametrize(
    "node",
    [(FIRST_SERVER_NODE_ID, 0, 5, -0.1), (FIRST_SERVER_NODE_ID + 1, 0, 5, -0.1), (1, FIRST_SERVER_NODE_ID, 5, -0.1)],
    ids=["its id", "its next id", "as a parent"],
)
def test_a_client_cannot_name_the_servers_own_nodes(node):
    server = assisted()
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5))
    with pytest.raises(PeerError, match=r"too large|never sent"):
        server.receive(grow(4, node), 2.0)


def test_a_crowd_ends_the_help_of_auto_which_comes_back_when_the_crowd_leaves():
    pass_timings = busy(levels_per_pass=6.0)
    auto, assist = assisted("auto", pass_timings), assisted("assist", pass_timings)
    for rivals, helped in ((1, True), (12, True), (13, False), (60, False), (2, True)):
        pass_timings.sessions_drafted_for = rivals
        assert (auto.server_draft_view(in_pass=False) is not None) is helped
        assert assist.server_draft_view(in_pass=False) is not None
        if not helped:
            assert auto.due() == 1.0


def test_a_resumed_stream_drops_what_was_planted_and_is_helped_again():
    """The client's nodes come again under new ids, and so do the server's own."""
    server = assisted()
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5))
    server.reopen(open_frame((1, 2, 3, 4), 3), 2.0)
    assert len(server.tree) == 0
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5))
    assert run_pass(server, [5, 2]).replies == (Commit(0, 4, (5, 2)),)


def test_run_ahead_holds_for_an_assisted_session_too():
    server = assisted(run_ahead=1)
    assert server.due() == math.inf
    server.receive(Ack(0, 4), 2.0)
    assert server.due() < math.inf


@pytest.mark.parametrize("idle", ASSISTING)
def test_an_answer_that_ran_ahead_stalls_and_asks_for_no_level(idle):
    server = assisted(idle, run_ahead=1)
    assert server.stalled
    assert not server.wants_server_drafting
    assert not server.may_server_draft
    assert server.waits_for_its_client
    server.receive(Ack(0, 4), 2.0)
    assert not server.stalled
    assert server.may_server_draft
    assert not server.waits_for_its_client


def test_a_session_that_rests_or_is_full_asks_for_no_level():
    resting, full = assisted(), assisted(max_server_drafted_nodes=2)
    resting.add_server_draft(0, resting.server_draft_view(in_pass=False), [])
    full.add_server_draft(0, full.server_draft_view(in_pass=False), level(1, 2))
    assert not resting.wants_server_drafting
    assert not full.wants_server_drafting
    run_pass(resting, [5], now=2.0)
    assert resting.wants_server_drafting


def test_what_waits_for_the_servers_own_drafter_does_not_wait_for_its_client():
    server = assisted("colocated")
    for now in (2.0, 3.0, 4.0):
        run_pass(server, [5], now=now)
    assert server.due() == math.inf
    assert not server.waits_for_its_client
    server.stop_server_drafting()
    assert server.due() < math.inf


def test_another_draft_may_help_where_the_last_could_not():
    server = assisted(state_kinds=lambda request: ())
    server.stop_server_drafting()
    server.reopen(open_frame((1, 2, 3, 4), 3), 2.0)
    assert not server.may_server_draft
    server.reopen(open_frame((1, 2, 3, 4), 3, state=StateRequest("another", 1)), 2.0)
    assert server.may_server_draft


def test_a_level_and_a_commit_change_how_long_the_next_one_is_waited_for():
    """The gain of a level is remembered only for the tree that it was read from."""
    server = assisted()
    assert server.due() > 1.0
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5, logp=-4.0))
    assert server.due() == 1.0
    run_pass(server, [1], now=2.0)
    server.add_server_draft(0, server.server_draft_view(in_pass=False), level(6))
    assert server.due() > 2.0


@pytest.mark.parametrize("idle", ["assist", "auto"])
def test_nothing_is_waited_for_where_the_answer_has_no_room_for_it(idle):
    """One token is left, which a pass of the root alone commits."""
    server = assisted(idle, settings=replace(SETTINGS, max_new_tokens=2))
    assert server.due() == 1.0


@pytest.mark.parametrize(("right", "chance", "waits"), [(True, 0.8, False), (False, 0.3, True)])
def test_how_often_drafts_have_missed_decides_how_long_they_are_waited_for(right, chance, waits):
    """At first one token in six, where a level with an acceptance rate of 0.8 is waited for and one with 0.3 is not."""
    server, now = assisted(settings=Settings(200)), 1.0
    drafted = level(5, logp=math.log(chance))
    server.add_server_draft(0, server.server_draft_view(in_pass=False), drafted)
    assert (server.due() > now) is not waits
    for _ in range(40):
        now += 1.0
        server.add_server_draft(0, server.server_draft_view(in_pass=False), level(5))
        run_pass(server, [5, 1] if right else [1, 1], now=now)
        server.receive(Ack(0, server.tree.frontier), now)
    server.add_server_draft(0, server.server_draft_view(in_pass=False), drafted)
    assert (server.due() > now) is waits


def test_how_long_a_person_thinks_slows_no_answer():
    """If the user's thinking time counted, the server would draft for longer than pays at ten tokens a second."""
    server, now = assisted("colocated"), 1.0
    for thought in (0.0, 3600.0):
        if thought:
            server.receive(Cancel(0), now)
            server.receive(Extend(1, server.tree.frontier, (2,), SETTINGS), now + thought)
            now += thought
        for _ in range(4):
            now += 0.1
            run_pass(server, [1], now=now)
        server.add_server_draft(server.epoch, server.server_draft_view(in_pass=False), level(5, logp=math.log(0.5)))
        assert server.due() == now
