"""Sessions that outlive their streams: resumed without repeated computation, dropped at the end of the lease or of the
server."""

import math
from dataclasses import replace

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import Commit, FailureCode, Finished, FromServer, Open, Opened, Settings
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import (
    CAPACITY,
    LEASE,
    SERVING_LIMITS,
    SETTINGS,
    TERMS,
    Client,
    answer,
    leasing,
    lose,
    nothing_is_held,
    one_pass,
    prompt_of,
    renewed,
    returned,
)
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.proposers import guessing, knowing


@pytest.fixture
def sessions() -> Sessions:
    return leasing()


def answer_next_turn(client: Client, fake_target: FakeTarget) -> None:
    """A question of two tokens after the last answer, on a new stream."""
    client.session.lost()
    fresh = renewed(client)
    prompt = [*client.session.tree.tokens, 7, 8]
    fresh.say(fresh.session.extend(len(prompt) - 2, [7, 8], Settings(max_new_tokens=1)))
    answer(fresh, fresh.sessions, fake_target)
    assert fresh.session.answer == decode(prompt, 1)


@pytest.mark.parametrize("passes", range(1, 12))
@pytest.mark.parametrize("leaves_in_mid_pass", [False, True])
def test_an_answer_cut_after_any_pass_is_resumed_and_nothing_is_computed_twice(
    sessions: Sessions, passes: int, leaves_in_mid_pass: bool
) -> None:
    fake_target, client, prompt = FakeTarget(), Client(sessions, "s"), prompt_of(1, 70)
    truth = decode(prompt, SETTINGS.max_new_tokens)
    client.open(prompt)
    propose = knowing(prompt + truth, 0.8, VOCAB, passes)
    for _ in range(passes):
        one_pass(sessions, fake_target)
        client.hear()
        if not client.done:
            client.draft(propose)
    batch = sessions.plan(0.0) if leaves_in_mid_pass else None
    lose(client)
    assert (len(sessions), sessions.away) == (0, 1)
    if batch is not None:
        sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    client = returned(client)
    assert (len(sessions), sessions.away) == (1, 0)
    client.hear()
    while not client.done:
        client.draft(propose)
        one_pass(sessions, fake_target)
        client.hear()
    assert client.session.answer == truth
    assert sessions.counters.sessions == 1
    assert sessions.counters.recomputed_tokens == 0
    # The result of a pass that ran while the client was away is sent when it is back.
    assert sessions.counters.committed_tokens == len(truth)
    lose(client)
    sessions.plan(LEASE)
    assert nothing_is_held(sessions)


def test_a_pass_that_ends_after_its_stream_is_told_when_its_client_is_back(sessions: Sessions) -> None:
    """Up to the end of the answer, including the Finished."""
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open([3, 4, 5], Settings(max_new_tokens=2))
    one_pass(sessions, fake_target)
    client.hear()
    batch = sessions.plan(0.0)
    assert batch is not None
    lose(client)
    sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    assert client.inbox == []
    assert sessions.counters.finished == {"length": 1}
    client = returned(client)
    client.hear()
    assert client.session.finished is not None
    assert client.session.answer == decode([3, 4, 5], 2)
    assert sessions.counters.finished == {"length": 1}


def test_a_pass_for_a_session_that_was_dropped_meanwhile_holds_nothing(sessions: Sessions) -> None:
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open(prompt_of(1, 20))
    one_pass(sessions, fake_target)
    client.hear()
    batch = sessions.plan(0.0)
    assert batch is not None
    lose(client)
    assert sessions.plan(LEASE) is None
    sessions.complete(batch, fake_target.verify(batch.scheduled), LEASE)
    assert nothing_is_held(sessions)


@pytest.mark.parametrize("poison", [None, 3])
def test_a_session_whose_stream_broke_before_any_pass_gets_one_and_no_more(
    sessions: Sessions, poison: int | None
) -> None:
    fake_target, client = FakeTarget(poison), Client(sessions, "s")
    client.open([3, 4, 5])
    lose(client)
    assert sessions.next_due() == 0.0
    assert one_pass(sessions, fake_target) == 1
    assert sessions.next_due() == LEASE
    assert one_pass(sessions, fake_target) == 0
    client = returned(client)
    client.hear()
    if poison is None:
        assert client.session.answer == decode([3, 4, 5], 1)
    # If the session fails, its client learns it from the next pass.
    assert one_pass(sessions, fake_target) == 1
    assert (client.failed is None) == (poison is None)


def test_the_prompt_of_a_session_that_came_back_in_mid_pass_is_not_computed_again(sessions: Sessions) -> None:
    fake_target, client, prompt = FakeTarget(), Client(sessions, "s"), prompt_of(1, 40)
    client.open(prompt)
    batch = sessions.plan(0.0)
    assert batch is not None
    lose(client)
    client = returned(client)
    sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    client.hear()
    assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)[:1]
    answer(client, sessions, fake_target)
    assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_a_path_that_was_judged_while_its_client_came_back_is_not_computed_again(sessions: Sessions) -> None:
    fake_target, client, prompt = FakeTarget(), Client(sessions, "s"), prompt_of(1, 10)
    truth = decode(prompt, SETTINGS.max_new_tokens)
    client.open(prompt)
    one_pass(sessions, fake_target)
    client.hear()
    for _ in range(3):
        client.draft(knowing(prompt + truth, 1.0, VOCAB, 1))
    batch = sessions.plan(0.0)
    assert batch is not None
    lose(client)
    client = returned(client)
    sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    client.hear()
    assert len(client.session.answer) > 3
    answer(client, sessions, fake_target)
    assert client.session.answer == truth
    assert sessions.counters.recomputed_tokens == 0


def test_tokens_that_were_on_their_way_come_again_and_the_end_too(sessions: Sessions) -> None:
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open([3, 4, 5], Settings(max_new_tokens=4))
    for _ in range(4):
        one_pass(sessions, fake_target)
    assert isinstance(client.inbox[-1], Finished)
    lose(client)
    client = returned(client)
    commits = [message for message in client.inbox if isinstance(message, Commit)]
    assert [commit.start for commit in commits] == [3, 4, 5, 6], "one for each pass, as clients count passes by them"
    client.hear()
    assert client.session.finished is not None
    assert client.session.answer == decode([3, 4, 5], 4)
    assert one_pass(sessions, fake_target) == 0


def test_a_next_turn_on_a_new_stream_goes_on_from_what_is_held(sessions: Sessions) -> None:
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open(prompt_of(2, 30))
    answer(client, sessions, fake_target)
    packed = sessions.counters.packed_tokens
    lose(client)
    answer_next_turn(client, fake_target)
    assert sessions.counters.packed_tokens - packed <= 4
    assert sessions.counters.recomputed_tokens == 0


@pytest.mark.parametrize("leaves_after", [True, False])
def test_a_connection_that_breaks_between_two_answers_costs_nothing(sessions: Sessions, leaves_after: bool) -> None:
    """gRPC reports the end of whatever ends first, and the broken connection a moment later or not at all."""
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open(prompt_of(2, 30))
    answer(client, sessions, fake_target)
    packed = sessions.counters.packed_tokens
    sessions.half_close(client, 0.0)
    if leaves_after:
        lose(client)
    assert client.ended
    assert (len(sessions), sessions.away) == (0, 1)
    answer_next_turn(client, fake_target)
    assert sessions.counters.packed_tokens - packed <= 4
    assert sessions.counters.failed == sessions.counters.refused == {}


@pytest.mark.parametrize("idle", ["lockstep", "eager"])
def test_a_connection_that_breaks_while_the_answer_waits_for_its_client_costs_nothing(idle: str) -> None:
    """It waits for its client's trees or acknowledgements."""
    sessions, fake_target = (
        Sessions(replace(TERMS, run_ahead=4), replace(SERVING_LIMITS, lease_seconds=LEASE), CAPACITY),
        FakeTarget(),
    )
    client, prompt = Client(sessions, "s"), prompt_of(1, 20)
    client.open(prompt, replace(SETTINGS, idle=idle))
    while one_pass(sessions, fake_target):
        pass
    sessions.half_close(client, 0.0)
    assert client.ended
    lose(client)
    assert (len(sessions), sessions.away) == (0, 1)
    client = returned(client)
    client.hear()
    while not client.done:
        client.draft(guessing(VOCAB, 1))
        one_pass(sessions, fake_target)
        client.hear()
    assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert (sessions.counters.sessions, sessions.counters.failed, sessions.counters.refused) == (1, {}, {})
    assert sessions.counters.recomputed_tokens == 0


def test_a_lease_that_is_over_costs_a_computation_and_no_token(sessions: Sessions) -> None:
    fake_target, client, prompt = FakeTarget(), Client(sessions, "s"), prompt_of(3, 20)
    client.open(prompt)
    for _ in range(5):
        one_pass(sessions, fake_target)
        client.hear()
    lose(client, now=10.0)
    assert sessions.next_due() == 10.0 + LEASE
    assert sessions.plan(10.0 + LEASE - 0.001) is None
    assert sessions.away == 1
    assert sessions.plan(10.0 + LEASE) is None
    assert nothing_is_held(sessions)
    assert sessions.next_due() == math.inf
    client = returned(client)
    answer(client, sessions, fake_target)
    assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.sessions == 2


@pytest.mark.parametrize("drains_first", [False, True])
def test_a_server_that_goes_away_keeps_nobody_who_is_gone(sessions: Sessions, drains_first: bool) -> None:
    away, running = Client(sessions, "away"), Client(sessions, "running")
    for client in (away, running):
        client.open(prompt_of(1, 20))
    one_pass(sessions, FakeTarget())
    if drains_first:
        sessions.drain()
        lose(away)
    else:
        lose(away)
        sessions.drain()
    assert (len(sessions), sessions.away) == (1, 0)
    back = returned(away)
    assert back.failed is not None
    assert back.failed.code is FailureCode.DRAINING
    lose(running)
    assert nothing_is_held(sessions)


def test_a_resume_that_is_refused_leaves_nothing(sessions: Sessions) -> None:
    client = Client(sessions, "s")
    client.open(prompt_of(1, 20))
    one_pass(sessions, FakeTarget())
    lose(client)
    newcomer = Client(sessions, "s")
    newcomer.say(Open(99, "f", client.session.id, 0, (1, 2), 2, SETTINGS))
    assert newcomer.failed is not None
    assert nothing_is_held(sessions)


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("shared", [0, 10, 30, None])
def test_an_id_that_another_client_holds_is_as_good_as_an_unknown_one(is_away: bool, shared: int | None) -> None:
    """A client that names another's session but differs in its Open learns nothing about it, even with the same prompt:
    it gets the messages of a new session. The id is the key: whoever knows it and the whole Open counts as the same
    client."""
    others_prompt = prompt_of(1, 30) if shared is None else [*prompt_of(1, 30)[:shared], *prompt_of(2, 12)]
    heard: dict[bool, list[FromServer]] = {}
    for is_taken in (False, True):
        sessions, fake_target = leasing(), FakeTarget()
        victim = Client(sessions, "taken" if is_taken else "another")
        victim.open(prompt_of(1, 30), Settings(max_new_tokens=40))
        for _ in range(6):
            one_pass(sessions, fake_target)
            victim.hear()
            victim.draft(guessing(VOCAB, 1))
        if is_away:
            lose(victim)
        other = Client(sessions, "taken")
        told: list[FromServer] = []
        other.open(others_prompt, Settings(max_new_tokens=8))
        while not other.done:
            told += other.inbox
            other.hear()
            one_pass(sessions, fake_target)
        heard[is_taken] = told
        assert other.session.answer == decode(others_prompt, 8)
        assert sessions.counters.recomputed_tokens == 0
    assert heard[True] == heard[False]
    assert isinstance(heard[True][0], Opened)


def test_what_stale_streams_say_of_a_session_that_moved_on_is_ignored(sessions: Sessions) -> None:
    fake_target, client = FakeTarget(), Client(sessions, "s")
    client.open(prompt_of(1, 10))
    one_pass(sessions, fake_target)
    client.hear()
    fresh = returned(client)
    assert client.ended
    client.say(client.session.cancel())
    lose(client)
    assert (len(sessions), sessions.away, fresh.failed) == (1, 0, None)
    assert one_pass(sessions, fake_target) == 1


def test_a_lease_of_no_seconds_keeps_nothing() -> None:
    sessions = Sessions(TERMS, ServingLimits(max_sessions=16, pass_tokens=48), CAPACITY)
    client = Client(sessions, "s")
    client.open(prompt_of(1, 10))
    one_pass(sessions, FakeTarget())
    lose(client)
    assert nothing_is_held(sessions)
    with pytest.raises(PeerError):
        sessions.receive(client, client.session.acknowledge() or client.session.cancel(), 0.0)
