"""Which draft state a server's session sends, and when."""

from dataclasses import replace

import pytest

from common.protocol.draft_state import raw_bytes
from common.protocol.errors import PeerError
from common.protocol.messages import Cancel, Extend, FailureCode, State, StateAck, StateRequest
from common.protocol.server_session import ServerSession
from common.protocol.state_window import FIRST_WINDOW_BYTES
from common.protocol.terms import no_state
from tests.common.protocol.fakes import REQUEST, terms
from tests.common.protocol.test_server_session import SETTINGS, open_frame, run_pass, session


def feeding(**changes) -> ServerSession:
    """A session whose prompt of three tokens has been processed and one token committed."""
    server = ServerSession(open_frame(state=REQUEST, **changes), terms(), 0.0)
    assert server.next_span() is None
    run_pass(server, [4])
    return server


def feed(server: ServerSession, now: float = 1.0) -> list[State]:
    frames = []
    while (span := server.next_span()) is not None:
        frames.append(server.state_frame(span, bytes(9), now))
    return frames


def test_draft_state_follows_what_was_processed_and_never_the_newest_token():
    server = feeding()
    assert feed(server) == [
        State(0, 0, 3, "lsa", "int8", (3, 512), bytes(9)),
        State(0, 0, 3, "kv", "int8", (3, 2, 2, 256), bytes(9)),
    ]
    assert feed(server) == []
    run_pass(server, [5])
    assert [(frame.kind, frame.start, frame.count) for frame in feed(server)] == [("lsa", 3, 1), ("kv", 3, 1)]


def sent_at_once(prompt, later):
    """Bytes of each kind that leave before anything is acknowledged."""
    server = ServerSession(open_frame(prompt, state=replace(REQUEST, later=later)), terms(), 0.0)
    run_pass(server, [4])
    sent = {"lsa": 0, "kv": 0}
    while (span := server.next_span()) is not None:
        payload = bytes(raw_bytes("int8", (span.count, *span.kind.shape)))
        sent[span.kind.name] += len(server.state_frame(span, payload, 1.0).payload)
    return sent


@pytest.mark.parametrize("later", [False, True])
def test_key_values_that_can_wait_leave_half_of_the_window_to_what_is_wanted_now(later):
    sent = sent_at_once((1, 2, 3) * 4, later)
    assert sent["lsa"] > 0
    assert (sum(sent.values()) <= FIRST_WINDOW_BYTES / 2) == later
    assert (sent_at_once((1, 2, 3) * 8, later)["lsa"] > FIRST_WINDOW_BYTES / 2) == later


def test_a_session_that_asks_for_no_state_gets_none():
    server = session()
    run_pass(server, [4])
    assert server.next_span() is None


def test_nothing_is_sent_between_answers_and_the_next_turn_goes_on_behind_its_first_commit():
    server = feeding()
    server.receive(Cancel(0), 2.0)
    assert feed(server) == []
    server.receive(Extend(1, 4, (5, 5), SETTINGS), 3.0)
    assert feed(server) == []
    run_pass(server, [1])
    assert [(frame.turn, frame.kind, frame.start, frame.count) for frame in feed(server)] == [
        (1, "lsa", 0, 6),
        (1, "kv", 0, 3),
        (1, "kv", 3, 3),
    ]


def test_a_prompt_of_several_passes_sends_none_before_its_first_commit():
    server = ServerSession(open_frame(tuple(range(1, 6)), state=REQUEST), terms(), 0.0)
    for end in (2, 4):
        server.complete(server.plan(2), [], 1.0)
        assert server.processed == end
        assert feed(server) == []
    last = server.plan(2)
    assert last.verify_input is not None
    server.complete(last, [4], 1.0)
    assert sum(frame.count for frame in feed(server) if frame.kind == "lsa") == 5


def test_a_rebuilt_answer_sends_none_before_its_next_commit():
    server = ServerSession(open_frame((1, 2, 3, 4, 5), prompt_length=3, state=REQUEST), terms(), 0.0)
    server.complete(server.plan(3), [], 1.0)
    assert feed(server) == []
    run_pass(server, [4])
    assert feed(server) != []


def test_a_request_that_was_refused_once_is_refused_again():
    server = feeding()
    unknown = open_frame((1, 2, 3, 4), prompt_length=3, state=StateRequest("nobody's"))
    for now in (3.0, 4.0):
        with pytest.raises(PeerError):
            server.reopen(unknown, now)
    server.reopen(open_frame((1, 2, 3, 4), prompt_length=3, state=REQUEST), 5.0)
    assert {frame.kind for frame in feed(server)} == {"lsa", "kv"}


def test_a_frame_that_a_turn_overtook_is_not_sent():
    server = feeding()
    span = server.next_span()
    server.receive(Cancel(0), 2.0)
    server.receive(Extend(1, 2, (5,), SETTINGS), 3.0)
    assert server.state_frame(span, bytes(9), 3.0) is None
    run_pass(server, [1])
    assert [(frame.start, frame.count) for frame in feed(server)] == [(0, 3), (0, 3)]


def test_a_new_stream_is_sent_what_the_old_one_did_not_acknowledge():
    server = feeding()
    feed(server)
    server.receive(StateAck(1), 2.0)
    server.reopen(open_frame((1, 2, 3, 4), prompt_length=3, state=REQUEST), 3.0)
    assert [frame.kind for frame in feed(server)] == ["kv"]


def test_a_new_stream_may_ask_for_other_state_or_none():
    server = feeding()
    feed(server)
    server.receive(StateAck(2), 2.0)
    server.reopen(open_frame((1, 2, 3, 4), prompt_length=3, state=StateRequest("a draft", 3, "float16")), 3.0)
    assert {(frame.dtype, frame.shape[1:]) for frame in feed(server)} == {("float16", (512,)), ("float16", (3, 2, 256))}
    server.reopen(open_frame((1, 2, 3, 4), prompt_length=3), 4.0)
    assert feed(server) == []


def test_an_acknowledgement_of_frames_that_were_not_sent_breaks_the_protocol():
    server = feeding()
    feed(server)
    with pytest.raises(PeerError, match="names 3 frames, but only 2 were sent"):
        server.receive(StateAck(3), 2.0)


def test_a_server_whose_drafts_need_no_state_says_so():
    with pytest.raises(PeerError, match="sends no draft state for the draft model 'a draft'") as refused:
        ServerSession(open_frame(state=REQUEST), terms(state_kinds=no_state), 0.0)
    assert refused.value.code is FailureCode.INVALID
