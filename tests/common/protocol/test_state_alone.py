"""A turn that wants no answer but the draft state of its prompt: `max_new_tokens` 0."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import (
    Cancel,
    Commit,
    Extend,
    Finished,
    FinishReason,
    Opened,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.server_session import ServerSession
from tests.common.protocol.fakes import REQUEST, decode_alone, terms
from tests.common.protocol.joined import Joined
from tests.common.protocol.test_joined import FAULTS, SEEDS, TOKENS, TURNS
from tests.common.protocol.test_server_session import NAME, open_frame, run_pass
from tests.common.protocol.test_server_state import feed

STATE_ALONE = Settings(max_new_tokens=0)
OVER = Finished(0, 3, FinishReason.LENGTH)


def fetching(**changes) -> ServerSession:
    return ServerSession(open_frame(settings=STATE_ALONE, state=REQUEST), terms(**changes), 0.0)


def positions(frames: list[State], kind: str) -> list[int]:
    return sorted(at for frame in frames if frame.kind == kind for at in range(frame.start, frame.start + frame.count))


def test_the_whole_prompt_is_processed_without_a_choice_and_all_of_its_state_sent():
    server = fetching()
    assert server.opening_replies() == (Opened(NAME),)
    first = server.plan(2)
    assert (first.chain, first.verify_input) == ((1, 2), None)
    assert server.complete(first, [], 1.0).replies == ()
    last = server.plan(64)
    assert (last.chain, last.verify_input) == ((3,), None)
    assert server.complete(last, [], 1.0).replies == ()
    assert server.processed == 3
    assert server.due() == math.inf
    frames = feed(server)
    assert positions(frames, "lsa") == positions(frames, "kv") == [0, 1, 2]


def test_it_is_over_with_the_last_acknowledgement_and_no_sooner():
    server = fetching()
    run_pass(server, [])
    sent = len(feed(server))
    assert server.receive(StateAck(sent - 1), 2.0) == ()
    assert server.receive(StateAck(sent), 2.0) == (OVER,)
    assert server.receive(StateAck(sent), 2.0) == ()


def test_it_is_over_at_once_where_no_state_was_asked_for():
    server = ServerSession(open_frame(settings=STATE_ALONE), terms(), 0.0)
    assert server.opening_replies() == (Opened(NAME), OVER)
    assert server.due() == math.inf


def test_it_is_over_at_once_where_the_server_makes_none_for_that_draft():
    server = fetching(state_kinds=lambda request: [])
    assert server.opening_replies() == (Opened(NAME), OVER)


def test_what_waits_for_state_that_cannot_be_made_waits_no_more():
    server = fetching()
    run_pass(server, [])
    assert server.next_span() is not None
    assert server.forgo_state() == (OVER,)
    assert server.receive(Extend(1, 3, (4, 5), STATE_ALONE), 2.0) == (Finished(1, 5, FinishReason.LENGTH),)


def test_an_answer_goes_on_without_state_that_cannot_be_made():
    server = ServerSession(open_frame(state=REQUEST), terms(), 0.0)
    assert server.forgo_state() == ()
    assert run_pass(server, [4]).replies == (Commit(0, 3, (4,)),)


def test_a_stream_that_asks_for_state_no_more_ends_it():
    server = fetching()
    run_pass(server, [])
    feed(server)
    replies = server.reopen(open_frame(settings=STATE_ALONE), 2.0)
    assert replies == (Opened(NAME), OVER)


def test_a_new_stream_is_sent_what_was_not_acknowledged_and_ends_then():
    server = fetching()
    run_pass(server, [])
    assert len(feed(server)) == 2
    server.receive(StateAck(1), 2.0)
    replies = server.reopen(open_frame(settings=STATE_ALONE, state=REQUEST), 3.0)
    assert replies == (Opened(NAME),)
    assert len(feed(server)) == 1
    assert server.receive(StateAck(1), 4.0) == (OVER,)


def answered_with_state_on_its_way() -> ServerSession:
    """All state of its first three positions has arrived, that of the fourth has not."""
    server = ServerSession(open_frame(settings=Settings(5), state=REQUEST), terms(), 0.0)
    run_pass(server, [4])
    server.receive(StateAck(len(feed(server))), 1.0)
    run_pass(server, [5])
    return server


def test_a_new_stream_is_over_at_once_where_nothing_more_is_to_come():
    server = answered_with_state_on_its_way()
    assert feed(server), "lost with the stream before"
    replies = server.reopen(open_frame(settings=STATE_ALONE, state=REQUEST, turn=1), 3.0)
    assert replies == (Opened(NAME), Finished(1, 3, FinishReason.LENGTH))


def test_a_new_stream_of_the_same_turn_is_over_at_once_too():
    server = answered_with_state_on_its_way()
    assert feed(server)
    server.receive(Cancel(0), 2.0)
    assert server.receive(Extend(1, 3, (), STATE_ALONE), 2.0) == ()
    replies = server.reopen(open_frame(settings=STATE_ALONE, state=REQUEST, turn=1), 3.0)
    assert replies == (Opened(NAME), Finished(1, 3, FinishReason.LENGTH))


def test_it_can_be_cancelled():
    server = fetching()
    assert server.receive(Cancel(0), 1.0) == (Finished(0, 3, FinishReason.CANCELLED),)


def test_no_help_is_wanted_for_an_answer_that_is_not():
    server = ServerSession(
        open_frame(settings=Settings(0, idle="assist"), state=REQUEST), terms("assist", server_drafts=True), 0.0
    )
    run_pass(server, [])
    assert not server.wants_server_drafting
    assert server.server_draft_view(in_pass=False) is None


def test_an_answer_may_follow_in_the_next_turn():
    server = fetching()
    run_pass(server, [])
    server.receive(StateAck(len(feed(server))), 2.0)
    server.receive(Extend(1, 3, (), Settings(5)), 3.0)
    assert run_pass(server, [4]).replies == (Commit(1, 3, (4,)),)


def test_a_pass_that_the_next_turn_overtook_leaves_that_turn_its_choice():
    server = fetching()
    scheduled = server.plan(64)
    server.receive(Cancel(0), 1.0)
    server.receive(Extend(1, 3, (), Settings(5)), 1.0)
    server.complete(scheduled, [], 2.0)
    assert server.plan(64).verify_input is not None
    assert server.processed < 3
    assert run_pass(server, [4]).replies == (Commit(1, 3, (4,)),)


@settings(max_examples=300, deadline=None)
@given(
    seed=SEEDS,
    faults=FAULTS,
    before=st.one_of(st.just([]), TURNS),
    last=st.tuples(st.integers(-20, 0), TOKENS),
    request=st.sampled_from([REQUEST, None, StateRequest("a draft", layers=1)]),
    idle=st.sampled_from(["eager", "patient", "assist"]),
    budget=st.integers(1, 40),
)
def test_whatever_the_link_does_the_state_of_the_whole_prompt_has_come_when_it_ends(
    seed, faults, before, last, request, idle, budget
):
    joined = Joined(
        terms(idle, server_drafts=True), replace(faults, state=request), salt=seed, seed=seed, budget=budget
    )
    answers = joined.run([*before, (*last, STATE_ALONE)])
    assert answers[-1] == []
    everywhere = range(joined.client.tree.frontier)
    assert joined.held.keys() >= {(kind.name, position) for kind in joined._kinds for position in everywhere}
    assert all(position in everywhere for _, position in joined.held)
    joined.check_state()


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, faults=FAULTS, turns=TURNS, wanted=st.lists(st.booleans(), min_size=3, max_size=3))
def test_answers_around_it_are_the_targets_own(seed, faults, turns, wanted):
    turns = [
        (back, tokens, how if wants else STATE_ALONE) for (back, tokens, how), wants in zip(turns, wanted, strict=False)
    ]
    joined = Joined(terms(), faults, salt=seed, seed=seed)
    sequence: list[int] = []
    for (back, tokens, how), answer in zip(turns, joined.run(turns), strict=True):
        prompt = [*sequence[: max(0, len(sequence) + back)], *tokens] if sequence else tokens
        assert answer == decode_alone(prompt, how, seed)
        sequence = [*prompt, *answer]
