from dataclasses import replace

import pytest

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Ack,
    Cancel,
    Commit,
    Constraint,
    Draw,
    Extend,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal

SETTINGS = Settings(max_new_tokens=10)


REQUEST = StateRequest("d", layers=2)
STATE = State(0, 0, 2, "lsa", "int8", (2, 64), bytes(100))


def opened(prompt=(1, 2), request=None, **limits) -> ClientSession:
    session = ClientSession(
        "s", Limits(**{"fingerprint": "f", "vocab_size": 9, "context": 20, "max_nodes": 4, **limits}), request
    )
    session.open(prompt, SETTINGS)
    session.receive(Opened("s"))
    return session


def test_open_carries_the_whole_sequence():
    session = ClientSession("s", Limits("f", 9, 20, 4))
    assert session.open((1, 2), SETTINGS) == Open(PROTOCOL_VERSION, "f", "s", 0, (1, 2), 2, SETTINGS)
    assert session.state is ClientState.OPENING


@pytest.mark.parametrize("turn", ["the first", "a later one"])
def test_a_turn_whose_constraint_cannot_be_met_has_not_begun(turn):
    session = opened() if turn == "a later one" else ClientSession("s", Limits("f", 9, 20, 4))
    if turn == "a later one":
        session.receive(Finished(0, 2, FinishReason.LENGTH))
    before = session.state, session.turn
    asked = replace(SETTINGS, constraint=Constraint("regex", "("))
    with pytest.raises(PeerError, match="not supported here"):
        session.extend(2, (3,), asked) if turn == "a later one" else session.open((1, 2), asked)
    assert (session.state, session.turn) == before
    begun = session.extend(2, (3,), SETTINGS) if turn == "a later one" else session.open((1, 2), SETTINGS)
    assert begun is not None


def test_drafting_does_not_wait_for_opened():
    session = ClientSession("s", Limits("f", 9, 20, 4))
    session.open((1, 2), SETTINGS)
    assert session.propose(2, [Proposal(0, 3, -0.5)]) == Grow(0, 2, (GrownNode(1, 0, 3, -0.5),))


def test_a_proposal_may_hang_from_an_earlier_one_of_the_same_list():
    grow = opened().propose(2, [Proposal(0, 3, -0.5), Proposal(-1, 4, -0.25), Proposal(-2, 5, 0.0)])
    assert grow.nodes == (GrownNode(1, 0, 3, -0.5), GrownNode(2, 1, 4, -0.25), GrownNode(3, 2, 5, 0.0))


def test_a_proposal_outside_the_vocabulary_is_the_drafters_fault():
    with pytest.raises(MisuseError, match="vocabulary of 9"):
        opened().propose(2, [Proposal(0, 9, -0.5)])


@pytest.mark.parametrize("parent", [7, -1, -2])
def test_a_proposal_may_not_hang_from_nothing(parent):
    with pytest.raises(MisuseError, match="was not proposed before"):
        opened().propose(2, [Proposal(parent, 3, -0.5)])


def test_proposals_drafted_from_an_old_view_follow_the_commit():
    session = opened()
    session.receive(Commit(0, 2, (3,)))
    grow = session.propose(2, [Proposal(0, 3, -0.5), Proposal(-1, 4, -0.25), Proposal(0, 8, -0.1)])
    assert grow == Grow(0, 3, (GrownNode(2, 0, 4, -0.25),))


def test_the_tree_stays_within_its_bound_and_within_the_answer():
    session = opened()
    grow = session.propose(2, [Proposal(0, token, -1.0) for token in range(6)])
    assert len(grow.nodes) == 4
    assert session.propose(2, [Proposal(1, 5, -1.0)]) is None
    short = opened(context=4)
    chain = [Proposal(-i, 3, 0.0) for i in range(4)]
    assert len(short.propose(2, chain).nodes) == 1


def test_a_view_shows_no_position_that_the_target_does_not_have():
    session = opened(prompt=range(12), vocab_size=12, context=16, max_nodes=64)
    grow = session.propose(12, [Proposal(-i, 3, 0.0) for i in range(10)])
    assert max(node.position for node in session.view().nodes) == 15
    # The last position has room for the token that the pass itself brings, so no node of it can be committed.
    assert [node.id for node in grow.nodes] == [1, 2, 3]
    session.receive(Commit(0, 12, (3,)))
    assert session.propose(13, [Proposal(4, 5, 0.0), Proposal(5, 5, 0.0)]) is None
    assert max(node.position for node in session.view().nodes) == 15


def test_a_group_that_does_not_fit_the_tree_is_left_out_whole():
    draw = Draw((3, 4, 5), (1, 1, 1))
    above = [Proposal(0, token, -1.0, draw) for token in (3, 4)]
    below = [Proposal(-1, token, -1.0, draw) for token in (5, 3, 4)]
    assert [node.token for node in opened(max_nodes=4).propose(2, [*above, *below]).nodes] == [3, 4]
    assert [node.token for node in opened(max_nodes=5).propose(2, [*above, *below]).nodes] == [3, 4, 5, 3, 4]
    assert opened(max_nodes=2).propose(2, [Proposal(0, token, -1.0, draw) for token in (3, 4, 5)]) is None
    picked = [Proposal(0, token, -1.0) for token in (3, 4, 5)]
    assert [node.token for node in opened(max_nodes=2).propose(2, picked).nodes] == [3, 4]


def test_it_is_known_what_is_drafted_and_what_of_a_commit_had_been():
    assert ClientSession("s", Limits("f", 9, 20, 4)).drafted == ()
    session = opened()
    session.propose(2, [Proposal(0, 3, -0.5), Proposal(-1, 4, -0.5), Proposal(0, 5, -2.0)])
    assert [(node.token, node.parent) for node in session.drafted] == [(3, 0), (4, 1), (5, 0)]
    session.receive(Commit(0, 2, (3, 6)))
    assert session.carried == (1,)
    assert session.drafted == ()
    session.receive(Commit(0, 4, (3, 4)))
    assert session.carried == ()


def test_a_commit_is_idempotent_and_may_not_change_what_is_final():
    session = opened()
    assert session.receive(Commit(0, 2, (3, 4))) == (3, 4)
    assert session.receive(Commit(0, 2, (3, 4))) == ()
    assert session.receive(Commit(0, 3, (4, 5))) == (5,)
    assert session.answer == [3, 4, 5]
    assert session.passes == 2
    with pytest.raises(PeerError, match="that were final"):
        session.receive(Commit(0, 2, (3, 8)))


@pytest.mark.parametrize(
    "commit", [Commit(0, 4, (3,)), Commit(0, 1, (2, 3)), Commit(0, 2, ()), Commit(0, 2, (9,)), Commit(1, 2, (3,))]
)
def test_a_commit_that_cannot_be_is_the_servers_fault(commit):
    with pytest.raises(PeerError):
        opened().receive(commit)


def test_a_commit_brings_no_more_than_the_answer_has_room_for():
    session = opened(prompt=(1,) * 15)
    with pytest.raises(PeerError, match="a Commit brings 6 more tokens, but the answer has room for 5"):
        session.receive(Commit(0, 15, (1,) * 6))
    session.receive(Commit(0, 15, (1,) * 5))
    with pytest.raises(PeerError, match="a Commit brings 1 more tokens, but the answer has room for 0"):
        session.receive(Commit(0, 19, (1, 1)))


def test_an_answer_that_is_over_stays_as_it_is():
    session = opened()
    session.receive(Commit(0, 2, (3,)))
    session.receive(Finished(0, 3, FinishReason.END))
    assert session.receive(Commit(0, 2, (3,))) == ()
    with pytest.raises(PeerError, match="the answer has room for 0"):
        session.receive(Commit(0, 2, (3, 4)))


def test_another_session_cannot_be_opened_in_this_ones_place():
    session = ClientSession("s", Limits("f", 9, 20, 4))
    session.open((1, 2), SETTINGS)
    with pytest.raises(PeerError, match="another session"):
        session.receive(Opened("t"))


def test_the_frontier_is_told_once_by_a_grow_or_by_an_ack():
    session = opened()
    assert session.acknowledge() is None
    session.receive(Commit(0, 2, (3,)))
    assert session.acknowledge() == Ack(0, 3)
    assert session.acknowledge() is None
    session.receive(Commit(0, 3, (4,)))
    assert session.exhausted() == Grow(0, 4, ())
    assert session.exhausted() is None
    assert session.acknowledge() is None


def test_turns():
    session = opened()
    session.receive(Commit(0, 2, (3, 4)))
    with pytest.raises(MisuseError):
        session.extend(2, (5,), SETTINGS)
    session.receive(Finished(0, 4, FinishReason.END))
    assert session.finished.reason is FinishReason.END
    assert session.extend(3, (5, 6), SETTINGS) == Extend(1, 3, (5, 6), SETTINGS)
    assert session.tree.tokens == [1, 2, 3, 5, 6]
    assert session.answer == []
    assert session.receive(Commit(0, 4, (8,))) == ()
    session.receive(Finished(0, 4, FinishReason.END))
    assert session.state is ClientState.GENERATING
    assert session.receive(Commit(1, 5, (8,))) == (8,)


@pytest.mark.parametrize(("keep", "tokens"), [(9, (1,)), (-1, (1,)), (0, ())])
def test_a_turn_must_leave_a_sequence(keep, tokens):
    session = opened()
    session.receive(Finished(0, 2, FinishReason.CANCELLED))
    with pytest.raises(MisuseError, match="cannot keep"):
        session.extend(keep, tokens, SETTINGS)


def test_cancelling_waits_for_finished():
    session = opened()
    assert session.cancel() == Cancel(0)
    assert session.receive(Commit(0, 2, (3,))) == (3,)
    session.receive(Finished(0, 3, FinishReason.CANCELLED))
    assert session.state is ClientState.FINISHED


def test_a_broken_stream_is_resumed_with_all_tokens_and_the_tree_under_new_ids():
    session = opened()
    session.propose(2, [Proposal(0, 3, -0.5), Proposal(-1, 4, -0.25)])
    session.receive(Commit(0, 2, (3,)))
    session.lost()
    opening = Open(PROTOCOL_VERSION, "f", "s", 0, (1, 2, 3), 2, SETTINGS)
    assert session.reopen() == [opening, Grow(0, 3, (GrownNode(3, 0, 4, -0.25),))]


def test_a_cancel_outlives_the_stream_that_carried_it():
    session = opened()
    session.cancel()
    session.lost()
    assert session.reopen()[1:] == [Cancel(0)]
    session.receive(Opened("s"))
    assert session.state is ClientState.CANCELLING


def test_a_node_of_an_older_view_is_known_until_a_newer_view_was_drafted_from():
    session = opened()
    session.propose(2, [Proposal(0, 3, -0.5)])
    session.receive(Commit(0, 2, (3,)))
    assert len(session.propose(2, [Proposal(1, 4, -0.5)]).nodes) == 1
    session.propose(3, [Proposal(0, 5, -0.5)])
    assert session.tree.names == len(session.tree) == 2


def test_a_stream_that_breaks_between_turns_is_reopened_by_the_next_turn():
    session = opened()
    session.receive(Finished(0, 2, FinishReason.CANCELLED))
    session.lost()
    with pytest.raises(MisuseError, match="begin the next turn"):
        session.reopen()
    assert session.extend(2, (5,), SETTINGS) == Open(PROTOCOL_VERSION, "f", "s", 1, (1, 2, 5), 3, SETTINGS)


def test_finished_must_name_the_frontier_that_was_committed():
    with pytest.raises(PeerError, match="Finished names frontier 7"):
        opened().receive(Finished(0, 7, FinishReason.END))


def test_after_a_failure_only_a_new_session_helps():
    session = opened()
    session.receive(Failed(FailureCode.INTERNAL, "broken"))
    with pytest.raises(MisuseError):
        session.propose(2, [])
    with pytest.raises(PeerError):
        session.receive(Commit(0, 2, (3,)))


def test_an_empty_prompt_is_refused():
    with pytest.raises(MisuseError, match="empty"):
        ClientSession("s", Limits("f", 9, 20, 4)).open((), SETTINGS)


def test_state_is_asked_for_by_every_open_and_acknowledged_by_stream():
    session = ClientSession("s", Limits("f", 9, 20, 4), REQUEST)
    assert session.open((1, 2), SETTINGS).state == REQUEST
    session.receive(Opened("s"))
    assert session.acknowledge_state() is None
    assert session.receive(STATE) == ()
    session.receive(STATE)
    assert session.acknowledge_state() == StateAck(2)
    assert session.acknowledge_state() is None
    session.lost()
    assert session.reopen()[0].state == REQUEST
    session.receive(Opened("s"))
    session.receive(STATE)
    assert session.acknowledge_state() == StateAck(1)


def test_state_that_is_no_longer_wanted_may_still_come_until_the_next_stream():
    session = opened(request=REQUEST)
    session.wanted_state = None
    session.receive(STATE)
    session.lost()
    assert session.reopen()[0].state is None
    session.receive(Opened("s"))
    with pytest.raises(PeerError, match="not asked for"):
        session.receive(STATE)


def test_state_of_an_earlier_turn_counts_whatever_its_positions():
    session = opened(request=REQUEST)
    session.receive(Commit(0, 2, (3, 4)))
    session.receive(Finished(0, 4, FinishReason.END))
    session.extend(1, (5,), SETTINGS)
    session.receive(replace(STATE, start=2))
    assert session.acknowledge_state() == StateAck(1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"start": 1}, "draft state of position 2 came, but 2 tokens are known"),
        ({"turn": 1}, "before that turn was begun"),
        ({"kind": "mood"}, "kind 'mood', which this client does not know"),
        ({"dtype": "float16"}, "in float16, but int8 was asked for"),
        ({"count": 1}, "1 positions of 'lsa' cannot have the shape"),
        ({"count": 0, "shape": (0, 64)}, "cannot have the shape"),
        ({"shape": ()}, "cannot have the shape"),
        ({"shape": (2, 8, 8)}, "cannot have the shape"),
        ({"shape": (2, 0)}, "cannot have the shape"),
        ({"kind": "kv", "shape": (2, 3, 2, 8)}, "the state of 3 layers, but 2 were asked for"),
        ({"payload": bytes(300)}, "a State frame of 300 bytes for the shape .* is too large"),
        ({"shape": (2, 1 << 20)}, "is too large"),
        ({"shape": (2,) * 100_000}, "100000 axes, more than any kind has"),
        ({"kind": "\x1b[2J" * 1000}, r"kind '\[2J \[2J"),
        ({"dtype": "\x1b[2J" * 1000}, r"in \[2J \[2J"),
    ],
)
def test_state_that_cannot_be_is_the_servers_fault(changes, sentence):
    with pytest.raises(PeerError, match=sentence) as refused:
        opened(request=REQUEST).receive(replace(STATE, **changes))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_state_before_the_session_lives_breaks_the_protocol():
    session = ClientSession("s", Limits("f", 9, 20, 4), REQUEST)
    session.open((1, 2), SETTINGS)
    with pytest.raises(PeerError, match="State is not allowed while the session is opening"):
        session.receive(STATE)
