"""The drafting loop's decisions, tested one by one without running it."""

from dataclasses import replace

from client.drafting.loop import DraftingLoop
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from common.protocol.client_session import ClientSession
from common.protocol.messages import (
    Ack,
    Commit,
    Extend,
    Finished,
    FinishReason,
    Grow,
    Open,
    Opened,
    Settings,
    State,
    StateAck,
)
from common.protocol.views import Proposal
from tests.client.fakes import LIMITS, REQUEST, SESSION

PROMPT = (3, 1, 4)
GUESS = Proposal(0, 7, -0.5)
ALONE = replace(STREAM, levels_together=1, first_levels_together=1)


def state(start: int, count: int, turn: int = 0) -> State:
    return State(turn, start, count, "lsa", "float16", (count, 8), b"")


def begun(policy: Policy = ALONE, has_drafter: bool = True, longest: int = 20) -> DraftingLoop:
    loop = DraftingLoop(ClientSession(SESSION, LIMITS, REQUEST), policy, has_drafter)
    assert isinstance(loop.begin_turn(PROMPT, Settings(longest))[0], Open)
    return loop


def test_a_level_is_sent_at_once_even_before_the_server_answers():
    loop = begun()
    (grow,) = loop.drafted(loop.begin_step(), [GUESS])
    assert isinstance(grow, Grow)
    assert [node.token for node in grow.nodes] == [7]
    assert loop.begin_step() is not None


def test_one_step_at_a_time():
    loop = begun()
    assert loop.begin_step() is not None
    assert loop.begin_step() is None


def test_a_spent_drafter_says_so_once_and_waits_for_a_commit():
    loop = begun()
    (grow,) = loop.drafted(loop.begin_step(), [])
    assert grow.nodes == ()
    assert loop.begin_step() is None
    loop.received(Opened(SESSION))
    tokens, replies = loop.received(Commit(0, 3, (7,)))
    assert tokens == (7,)
    assert replies == []
    assert loop.begin_step() is not None


def test_a_commit_during_a_step_is_told_by_its_grow():
    loop = begun()
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    assert loop.received(Commit(0, 3, (7,))) == ((7,), [])
    (grow,) = loop.drafted(step, [GUESS, Proposal(-1, 8, -0.5)])
    assert grow.frontier == 4
    assert [(node.parent, node.token) for node in grow.nodes] == [(0, 8)]


def test_a_step_that_a_commit_made_useless_acknowledges_and_drafts_again():
    loop = begun()
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    loop.received(Commit(0, 3, (9,)))
    assert loop.drafted(step, [GUESS]) == [Ack(0, 4)]
    assert loop.begin_step() is not None


def test_a_step_of_an_earlier_turn_is_dropped():
    loop = begun()
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    loop.received(Commit(0, 3, (7, 8)))
    loop.received(Finished(0, 5, FinishReason.END))
    (extend,) = loop.begin_turn((3, 1, 4, 7, 2, 2), Settings(20))
    assert extend == Extend(1, 4, (2, 2), Settings(20))
    of_this_turn = loop.begin_step()
    assert of_this_turn is not None
    assert loop.drafted(step, [GUESS]) == []
    assert loop.begin_step() is None
    (grow,) = loop.drafted(of_this_turn, [GUESS])
    assert grow.turn == 1


def test_a_long_step_holds_back_no_more_than_a_few_tokens():
    loop = begun(longest=100)
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    told = [loop.received(Commit(0, 3 + done, (7,)))[1] for done in range(40)]
    assert [index for index, replies in enumerate(told) if replies] == [15, 31]
    assert told[15] == [Ack(0, 19)]
    assert loop.drafted(step, [GUESS]) == [Ack(0, 43)]
    loop.begin_step()
    assert loop.received(Commit(0, 43, (7,)))[1] == []


def test_a_full_tree_counts_as_spent():
    loop = begun()
    many = [Proposal(-index, 1, -3.0) for index in range(LIMITS.max_nodes)]
    loop.drafted(loop.begin_step(), many)
    (grow,) = loop.drafted(loop.begin_step(), [Proposal(1, 5, -1.0)])
    assert grow.nodes == ()
    assert loop.begin_step() is None


def test_a_drafter_that_rests_says_so_behind_what_it_held():
    """Otherwise a patient server would wait one response time longer."""
    loop = begun(STREAM)
    assert loop.drafted(loop.begin_step(), [GUESS]) == []
    sent = loop.drafted(loop.begin_step(), [])
    assert [[node.token for node in grow.nodes] for grow in sent] == [[7], []]


def test_rounds_wait_for_the_prompts_commit_and_then_hold_their_levels():
    loop = DraftingLoop(ClientSession(SESSION, LIMITS), LOCKSTEP, has_drafter=True)
    opening, go_on = loop.begin_turn(PROMPT, Settings(20))
    assert isinstance(opening, Open)
    assert go_on == Grow(0, 3, ())
    loop.received(Opened(SESSION))
    assert loop.drafted(loop.begin_step(), [GUESS]) == []
    assert loop.begin_step() is None
    loop.received(Commit(0, 3, (7,)))
    sent = []
    for level in range(LOCKSTEP.round_levels):
        sent += loop.drafted(loop.begin_step(), [Proposal(level, 5, -0.1)])
    (grow,) = sent
    assert len(grow.nodes) == LOCKSTEP.round_levels
    assert loop.begin_step() is None


def test_rounds_begin_with_a_warm_up_that_sends_nothing_whenever_it_ends():
    loop = begun(LOCKSTEP)
    warm_up = loop.begin_step()
    assert warm_up.view.tokens == PROMPT
    loop.received(Opened(SESSION))
    assert loop.received(Commit(0, 3, (7,))) == ((7,), [])
    assert loop.drafted(warm_up, [GUESS]) == []
    sent = []
    for level in range(LOCKSTEP.round_levels):
        sent += loop.drafted(loop.begin_step(), [Proposal(level, 5, -0.1)])
    assert [(grow.frontier, len(grow.nodes)) for grow in sent] == [(4, LOCKSTEP.round_levels)]


def test_without_a_drafter_the_stream_says_that_nothing_will_come():
    loop = begun(STREAM, has_drafter=False)
    loop.received(Opened(SESSION))
    assert loop.begin_step() is None
    assert loop.received(Commit(0, 3, (7,))) == ((7,), [Grow(0, 4, ())])


def test_the_cloud_only_acknowledges():
    loop = begun(CLOUD)
    loop.received(Opened(SESSION))
    assert loop.begin_step() is None
    assert loop.received(Commit(0, 3, (7,))) == ((7,), [Ack(0, 4)])


def test_cancelling_twice_is_cancelling_once():
    loop = begun()
    assert len(loop.cancel()) == 1
    assert loop.cancel() == []
    assert loop.begin_step() is None


def test_draft_state_is_acknowledged_at_once_and_goes_with_the_next_step():
    loop = begun()
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    assert step.states == ()
    assert loop.received(state(0, 3)) == ((), [StateAck(1)])
    loop.drafted(step, [GUESS])
    assert loop.begin_step().states == (state(0, 3),)


def test_only_nodes_that_came_since_are_new_but_all_are_computed_again_with_draft_state():
    loop = begun()
    loop.received(Opened(SESSION))
    loop.drafted(loop.begin_step(), [GUESS, Proposal(0, 8, -1.0)])
    step = loop.begin_step()
    assert step.new_nodes == 2
    loop.drafted(step, [Proposal(1, 9, -0.5)])
    step = loop.begin_step()
    assert step.new_nodes == 1
    loop.received(state(0, 3))
    loop.drafted(step, [Proposal(3, 9, -0.5)])
    assert loop.begin_step().new_nodes == 4


def test_draft_state_that_nobody_takes_fills_no_memory(monkeypatch):
    """As a server could that sends without end while a level takes long."""
    monkeypatch.setattr("client.drafting.waiting_states._MOST_BYTES", 3 * (512 + len(state(0, 3).payload)))
    loop = begun()
    loop.received(Opened(SESSION))
    step = loop.begin_step()
    for number in range(1, 6):
        assert loop.received(state(0, 3)) == ((), [StateAck(number)])
    loop.drafted(step, [GUESS])
    assert loop.begin_step().states == (state(0, 3),) * 3
    assert loop.received(state(0, 3)) == ((), [StateAck(6)])
    assert loop.undrafted_states == (state(0, 3),) * 4


def test_draft_state_wakes_a_spent_drafter_which_says_so_only_once():
    loop = begun()
    loop.received(Opened(SESSION))
    loop.drafted(loop.begin_step(), [])
    assert loop.begin_step() is None
    loop.received(state(0, 3))
    step = loop.begin_step()
    assert step.states == (state(0, 3),)
    assert loop.drafted(step, []) == []
    assert loop.begin_step() is None


def test_draft_state_begins_no_round():
    loop = begun(LOCKSTEP)
    loop.received(Opened(SESSION))
    loop.drafted(loop.begin_step(), [])
    loop.received(Commit(0, 3, (7,)))
    loop.drafted(loop.begin_step(), [])
    assert loop.received(state(0, 3)) == ((), [StateAck(1)])
    assert loop.begin_step() is None
    loop.received(Commit(0, 4, (7,)))
    assert loop.begin_step().states == (state(0, 3),)


def test_draft_state_of_an_earlier_turn_is_acknowledged_and_not_used():
    loop = begun()
    loop.received(Opened(SESSION))
    loop.received(Finished(0, 3, FinishReason.CANCELLED))
    loop.begin_turn((3, 1, 9), Settings(20))
    assert loop.received(state(0, 3)) == ((), [StateAck(1)])
    assert loop.begin_step().states == ()


def test_draft_state_that_no_step_has_carried_goes_into_the_next_turn_as_far_as_it_holds():
    """The server does not send again what was acknowledged."""
    loop = begun()
    loop.received(Opened(SESSION))
    loop.received(state(0, 1))
    interrupted = loop.begin_step()
    loop.received(state(1, 2))
    loop.received(Finished(0, 3, FinishReason.CANCELLED))
    loop.begin_turn((3, 1, 9), Settings(20))
    step = loop.begin_step()
    assert step.states == (*interrupted.states, replace(state(1, 2), count=1))
    loop.drafted(step, [GUESS])
    assert loop.begin_step().states == ()


def test_draft_state_beyond_what_the_next_turn_keeps_is_dropped():
    loop = begun()
    loop.received(Opened(SESSION))
    loop.received(state(1, 2))
    loop.received(Finished(0, 3, FinishReason.CANCELLED))
    loop.begin_turn((3, 9), Settings(20))
    assert loop.begin_step().states == ()


def test_draft_state_after_the_drafter_failed_is_neither_kept_nor_acknowledged():
    loop = begun()
    loop.received(Opened(SESSION))
    loop.begin_step()
    loop.retire()
    assert loop.received(state(0, 3)) == ((), [])
    assert loop.session.wanted_state is None
