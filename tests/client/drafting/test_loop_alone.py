"""Writing without a server: one token after another, and what the server must be told of it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.drafting.loop import DraftingLoop
from client.drafting.policies import CLOUD, STREAM
from common.protocol.client_session import ClientSession
from common.protocol.messages import Ack, Commit, Finished, FinishReason, Grow, Opened, Settings
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal
from tests.client.drafting.test_loop import PROMPT
from tests.client.fakes import LIMITS, SESSION
from tests.common.protocol.test_tree import paths

VOCABULARY = 4


def begun(policy=STREAM, has_drafter=True, ends=(), count=30) -> DraftingLoop:
    loop = DraftingLoop(ClientSession(SESSION, LIMITS), policy, has_drafter, ends)
    loop.begin_turn(PROMPT, Settings(count))
    loop.received(Opened(SESSION))
    return loop


def write(loop: DraftingLoop, token: int) -> list:
    step = loop.begin_step()
    assert step is not None
    return loop.drafted(step, [Proposal(0, token, -0.5)])


def test_each_token_is_drafted_as_if_all_before_it_were_final():
    loop = begun()
    loop.go_offline(10)
    for index, token in enumerate((7, 8, 9)):
        step = loop.begin_step()
        assert step.view.tokens == (*PROMPT, *(7, 8, 9)[:index])
        assert (step.view.nodes, step.view.provisional) == ((), index)
        assert step.expansion.nodes == 1
        (grow,) = loop.drafted(step, [Proposal(0, token, -0.5)])
        assert [(node.token, node.parent) for node in grow.nodes] == [(token, index)]
    loop.go_online()
    view = loop.begin_step().view
    assert (view.tokens, view.provisional, len(view.nodes)) == (PROMPT, 0, 3)


def test_what_waits_to_leave_goes_before_what_hangs_from_it():
    loop = begun()
    assert write(loop, 7) == []
    loop.go_offline(10)
    held, grow = write(loop, 8)
    assert [node.id for node in (*held.nodes, *grow.nodes)] == [1, 2]
    assert grow.nodes[0].parent == 1


@pytest.mark.parametrize("by", ["the server", "nobody"])
def test_nothing_is_shown_behind_an_end_token_that_is_final(by):
    loop = begun(ends=(9,))
    loop.drafted(loop.begin_step(), [Proposal(0, 8, -0.1), Proposal(-1, 9, -0.1), Proposal(-2, 5, -0.1)])
    assert loop.run == (8, 9)
    if by == "the server":
        loop.received(Commit(0, len(PROMPT), (8, 9)))
    else:
        loop.session.lost()
        assert loop.accept_unverified(5) == (8, 9)
        assert loop.accept_unverified(5) == ()
    assert loop.run == ()


def with_an_unlikely_end(*more: Proposal) -> DraftingLoop:
    """A loop whose tree has 7, and behind it 8 and 9, which are unlikely."""
    loop = begun()
    chain = [Proposal(0, 7, -0.1), Proposal(-1, 8, -1.0), Proposal(-2, 9, -0.1)]
    loop.drafted(loop.begin_step(), [*chain, *more])
    assert loop.run == (7, 8, 9)
    loop.go_offline(10)
    return loop


def test_the_unlikely_end_of_a_tree_is_drafted_again_while_it_is_shown():
    loop = with_an_unlikely_end()
    for said, before, shown in ((8, (7,), (7, 8, 9)), (5, (7, 8), (7, 8, 5)), (6, (7, 8, 5), (7, 8, 5, 6))):
        step = loop.begin_step()
        assert step.view.tokens == (*PROMPT, *before)
        loop.drafted(step, [Proposal(0, said, -3.0)])
        assert loop.run == shown


@pytest.mark.parametrize("why", ["the drafter says nothing more", "the tree is full"])
def test_the_unlikely_is_written_on_where_nothing_else_can_be_had(why):
    filling = [Proposal(parent, token, -9.0) for parent in (0, -1) for token in range(10, 50)]
    loop = with_an_unlikely_end(*(filling if why == "the tree is full" else ()))
    loop.drafted(loop.begin_step(), [Proposal(0, 5, -0.1)] if why == "the tree is full" else [])
    assert loop.run == (7, 8, 9)
    step = loop.begin_step()
    assert step.view.tokens == (*PROMPT, 7, 8, 9)
    loop.drafted(step, [])
    assert loop.begin_step() is None


@pytest.mark.parametrize("drawn", [8, 9], ids=["another token", "the other of the group"])
def test_in_a_tree_of_groups_which_nothing_joins_the_run_goes_on_below_it(drawn):
    loop = begun()
    loop.session.tree.grouped = True
    group = [Proposal(0, 7, -0.8), Proposal(0, 9, -0.9), Proposal(-2, 5, -0.1)]
    loop.drafted(loop.begin_step(), group)
    loop.go_offline(10)
    step = loop.begin_step()
    assert step.view.tokens == (*PROMPT, 7)
    loop.drafted(step, [Proposal(0, drawn, -1.0)])
    assert loop.run == (7, drawn)
    assert loop.begin_step().view.tokens == (*PROMPT, 7, drawn)


@pytest.mark.parametrize("link", ["is opened anew", "is opened anew and lost again"])
def test_what_is_drafted_while_the_tree_is_sent_again_is_kept(link):
    loop = with_an_unlikely_end()
    step = loop.begin_step()
    loop.session.lost()
    loop.reopen()
    if link == "is opened anew and lost again":
        loop.session.lost()
    loop.drafted(step, [Proposal(0, 6, -3.0)])
    assert loop.run == (7, 6)
    assert loop.begin_step().view.tokens == (*PROMPT, 7, 6)


def test_a_commit_that_confirms_a_part_of_what_a_step_stands_on_leaves_the_rest():
    loop = with_an_unlikely_end()
    loop.drafted(loop.begin_step(), [Proposal(0, 6, -3.0)])
    step = loop.begin_step()
    loop.received(Commit(0, 3, (7,)))
    loop.drafted(step, [Proposal(0, 5, -3.0)])
    assert loop.run == (6, 5)


def test_what_is_drafted_once_the_link_is_back_is_shown_behind_what_was_written():
    loop = with_an_unlikely_end()
    loop.drafted(loop.begin_step(), [Proposal(0, 6, -3.0)])
    loop.go_online()
    step = loop.begin_step()
    written = next(node.id for node in step.view.nodes if node.token == 6)
    loop.drafted(step, [Proposal(written, 2, -0.1)])
    assert loop.run == (7, 6, 2)
    loop.go_offline(10)
    assert loop.begin_step().view.tokens == (*PROMPT, 7, 6)


def test_what_was_written_is_shown_until_somebody_judges_it():
    loop = with_an_unlikely_end()
    for said in (8, 5, 6):
        loop.drafted(loop.begin_step(), [Proposal(0, said, -3.0)])
    loop.go_online()
    assert loop.run == (7, 8, 5, 6)
    loop.received(Commit(0, 3, (7,)))
    assert loop.run == (8, 5, 6)
    loop.received(Commit(0, 4, (8,)))
    assert loop.run == (5, 6)
    loop.received(Commit(0, 5, (9,)))
    assert loop.run == ()


@pytest.mark.parametrize("by", ["another token", "another turn"])
def test_what_was_written_leads_no_run_once_it_was_judged(by):
    loop = with_an_unlikely_end()
    for said in (8, 5):
        loop.drafted(loop.begin_step(), [Proposal(0, said, -3.0)])
    loop.go_online()
    if by == "another token":
        loop.received(Commit(0, 3, (3,)))
    else:
        loop.received(Finished(0, 3, FinishReason.CANCELLED))
        loop.begin_turn((*PROMPT, 1), Settings(30))
    loop.drafted(loop.begin_step(), [*(Proposal(0, token, -3.0) for token in (7, 8)), Proposal(0, 4, -0.1)])
    assert loop.run == (4,)


def test_what_is_written_outlives_a_new_stream_and_what_is_accepted_of_it():
    loop = with_an_unlikely_end()
    loop.drafted(loop.begin_step(), [Proposal(0, 6, -3.0)])
    loop.session.lost()
    loop.reopen()
    assert loop.run == (7, 6)
    loop.session.lost()
    assert loop.accept_unverified(1) == (7,)
    loop.go_offline(10)
    step = loop.begin_step()
    assert (loop.run, step.view.tokens, step.view.provisional) == ((6,), (*PROMPT, 7, 6), 2)


def test_what_is_accepted_while_the_link_is_lost_is_no_choice_of_the_targets():
    loop = begun()
    loop.session.lost()
    loop.go_offline(10)
    for token in (7, 8, 9):
        write(loop, token)
        assert loop.accept_unverified(1) == (token,)
    assert loop.begin_step().view.provisional == 3
    loop.go_online()
    loop.begin_turn((*PROMPT, 7, 8, 9, 1), Settings(30))
    loop.go_offline(10)
    assert loop.begin_step().view.provisional == 0


def test_what_is_to_be_drafted_again_is_not_accepted_before_it_is():
    loop = with_an_unlikely_end()
    loop.session.lost()
    assert loop.accept_unverified(3) == (7,)
    assert loop.run == (8, 9)
    loop.drafted(loop.begin_step(), [Proposal(0, 8, -3.0)])
    assert loop.accept_unverified(3) == (8,)


def test_what_is_drafted_behind_another_token_than_the_final_one_is_not_written():
    loop = with_an_unlikely_end()
    step = loop.begin_step()
    loop.received(Commit(0, 3, (3,)))
    loop.drafted(step, [Proposal(0, 6, -0.1)])
    assert loop.run == ()
    assert loop.begin_step().view.tokens == (*PROMPT, 3)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_no_more_is_written_than_allowed(limit):
    loop = begun()
    loop.go_offline(limit)
    for _ in range(limit):
        write(loop, 7)
    assert loop.begin_step() is None


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_more_is_offered_than_allowed_of_what_was_drafted_before(limit):
    loop = with_an_unlikely_end()
    loop.go_offline(limit)
    assert loop.run == (7, 8, 9)[:limit]
    loop.session.lost()
    accepted = loop.accept_unverified(3)
    assert accepted == (7,)[:limit]
    assert loop.run == (8, 9)[: max(0, limit - 1)]


def test_a_full_tree_ends_the_run_instead_of_trying_for_ever():
    loop = begun(count=300)
    loop.go_offline(300)
    for token in range(LIMITS.max_nodes):
        write(loop, token % 50)
    assert write(loop, 7) == []
    assert loop.begin_step() is None


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_draft_that_goes_round_in_circles_is_stopped_and_that_is_said_until_somebody_judges(is_kept):
    loop = begun(count=300)
    if is_kept:
        loop.session.lost()
    loop.go_offline(300)
    for token in range(1000):
        step = loop.begin_step()
        if step is None:
            break
        loop.drafted(step, [Proposal(0, token % 3, -0.5)])
        if is_kept:
            assert len(loop.accept_unverified(1)) == 1
    assert token < 50
    assert "repeat itself" in loop.note
    assert loop.begin_step() is None
    loop.go_online()
    assert loop.note == ""


def test_a_drafter_with_nothing_to_say_is_asked_once_however_often_the_link_is_tried():
    loop = begun()
    loop.go_offline(10)
    assert loop.drafted(loop.begin_step(), []) == []
    for _ in range(3):
        loop.go_offline(10)
        assert loop.begin_step() is None
    loop.go_online()
    loop.go_offline(10)
    assert loop.begin_step() is not None


def test_nothing_is_written_behind_an_end_token():
    loop = begun(ends=(9,))
    loop.go_offline(10)
    write(loop, 8)
    write(loop, 9)
    assert loop.begin_step() is None


@pytest.mark.parametrize("how", [{"policy": CLOUD}, {"has_drafter": False}])
def test_without_a_drafter_nothing_is_written(how):
    loop = begun(**how)
    loop.go_offline(10)
    assert loop.begin_step() is None


def test_without_a_stream_nothing_is_said_and_the_next_one_is_told_all():
    loop = begun()
    loop.go_offline(10)
    write(loop, 7)
    loop.session.lost()
    assert write(loop, 8) == []
    opened, grow = loop.reopen()
    assert opened.tokens == PROMPT
    assert [(node.token, node.parent) for node in grow.nodes] == [(7, 0), (8, grow.nodes[0].id)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_both_ends_hold_the_same_tree_whenever_the_link_was_doubted(seed):
    dice = random.Random(seed)
    loop = begun(count=60)
    server, sent, step = TokenTree(PROMPT), [], None
    for _ in range(60):
        what = dice.random()
        if step is None and what < 0.5:
            step = loop.begin_step()
        elif step is not None and what < 0.6:
            leaf = max((node.id for node in step.view.nodes), default=0)
            proposals = [Proposal(leaf, dice.randrange(VOCABULARY), -0.5)] * (dice.random() < 0.9)
            sent += loop.drafted(step, proposals)
            step = None
        elif what < 0.7:
            loop.go_offline(8)
        elif what < 0.8:
            loop.go_online()
        elif loop.session.room > 1:
            token = dice.randrange(VOCABULARY)
            start = server.frontier
            server.commit([token])
            sent += loop.received(Commit(0, start, (token,)))[1]
        _deliver(sent, server)
    loop.go_online()
    if step is not None:
        sent += loop.drafted(step, [])
    while (step := loop.begin_step()) is not None:
        sent += loop.drafted(step, [])
    _deliver(sent, server)
    assert paths(server) == paths(loop.session.tree)


def _deliver(sent: list, server: TokenTree) -> None:
    for message in sent:
        if isinstance(message, Grow):
            server.grow(message.frontier, message.nodes)
        if isinstance(message, Grow | Ack):
            server.forget(message.frontier)
    sent.clear()
