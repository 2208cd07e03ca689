"""Many sessions without a model: exact answers, no slot lost, no session harmed by another."""

from dataclasses import replace

import pytest

from common.protocol.client_session import ClientSession
from common.protocol.messages import (
    FailureCode,
    Finished,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
)
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.server_session import ServerSession
from server.sessions.outgoing_queue import MAX_WAITING, OutgoingQueue
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import (
    LIMITS,
    SERVING_LIMITS,
    SETTINGS,
    TERMS,
    Client,
    answer,
    one_pass,
    prompt_of,
)
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing, knowing, nothing
from tests.server.server_drafted import begun, knowing_all, long_pass, new_sessions, truth_of


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(TERMS, SERVING_LIMITS, capacity=2000)


def test_sessions_with_every_kind_of_drafter_are_exact_and_nothing_leaks(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    clients, truths, proposers = [], [], []
    for index in range(9):
        prompt = prompt_of(index, 1 + 17 * index)
        truth = decode(prompt, SETTINGS.max_new_tokens)
        client = Client(sessions, str(index))
        client.open(prompt)
        clients.append(client)
        truths.append(truth)
        proposers.append([nothing, guessing(VOCAB, index), knowing(prompt + truth, 0.8, VOCAB, index)][index % 3])
    while not all(client.done for client in clients):
        for client, propose in zip(clients, proposers, strict=True):
            client.hear()
            if not client.done:
                client.draft(propose)
        one_pass(sessions, fake_target)
    assert [client.session.answer for client in clients] == truths
    assert sessions.counters.recomputed_tokens == 0
    assert sessions.counters.committed_tokens == sum(map(len, truths))
    for client in clients:
        sessions.leave(client, 0.0)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_turn_keeps_what_it_can_and_recomputes_nothing(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    client = Client(sessions, "s")
    client.open([3, 4, 5])
    for keep in (None, 2, 3, 0):
        if keep is not None:
            kept = client.session.tree.tokens[: len(client.session.tree.tokens) - keep]
            client.say(client.session.extend(len(kept), [7, 8], SETTINGS))
        prompt = list(client.session.tree.tokens)
        while not client.done:
            one_pass(sessions, fake_target)
            client.hear()
        assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_nodes_that_arrive_during_a_pass_survive_it(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    client = Client(sessions, "s")
    prompt = [3, 4, 5]
    truth = decode(prompt, SETTINGS.max_new_tokens)
    client.open(prompt)
    batch = sessions.plan(0.0)
    assert batch is not None
    client.say(Grow(0, 3, tuple(GrownNode(i + 1, i, truth[i], -0.1) for i in range(4))))
    sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    one_pass(sessions, fake_target)
    client.hear()
    client.hear()
    assert client.session.answer == truth[:5]


@pytest.mark.parametrize("leaves_in_mid_pass", [False, True])
def test_a_session_that_leaves_gives_everything_back(sessions: Sessions, leaves_in_mid_pass: bool) -> None:
    fake_target = FakeTarget()
    client = Client(sessions, "s")
    client.open(prompt_of(1, 30))
    batch = sessions.plan(0.0)
    assert batch is not None
    if leaves_in_mid_pass:
        sessions.leave(client, 0.0)
    sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
    sessions.leave(client, 0.0)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_pass_that_cannot_compute_one_session_fails_that_one(sessions: Sessions) -> None:
    fake_target = FakeTarget(poison=9)
    bad, good = Client(sessions, "bad"), Client(sessions, "good")
    bad.open([9, 1])
    good.open([8, 1])
    while not good.done:
        one_pass(sessions, fake_target)
        good.hear()
    assert bad.failed is not None
    assert bad.failed.code is FailureCode.INTERNAL
    assert good.session.answer == decode([8, 1], SETTINGS.max_new_tokens)
    sessions.leave(good, 0.0)
    assert sessions.free_slots == 2000


def test_the_newest_stream_of_a_session_wins(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    older, newer = Client(sessions, "s"), Client(sessions, "s")
    prompt = prompt_of(2, 20)
    older.open(prompt)
    one_pass(sessions, fake_target)
    one_pass(sessions, fake_target)
    newer.open(prompt)
    assert older.ended
    assert not newer.ended
    sessions.leave(older, 0.0)
    assert len(sessions) == 1
    while not newer.done:
        newer.hear()
        one_pass(sessions, fake_target)
    assert newer.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_a_faulty_open_does_not_take_over_a_session(sessions: Sessions) -> None:
    older, newer = Client(sessions, "s"), Client(sessions, "s")
    older.open([1, 2])
    newer.say(Open(99, "f", newer.session.id, 0, (1, 2), 2, SETTINGS))
    assert newer.failed is not None
    assert newer.failed.code is FailureCode.VERSION
    assert not older.ended


def test_a_session_that_cannot_be_planned_fails_alone(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_target = FakeTarget()
    bad, good = Client(sessions, "bad"), Client(sessions, "good")
    bad.open([9, 1])
    good.open([8, 1])
    plan = ServerSession.plan

    def fail(session: ServerSession, budget: int) -> ScheduledTokens:
        if session.tree.tokens[0] == 9:
            raise ArithmeticError("it was not foreseen")
        return plan(session, budget)

    monkeypatch.setattr(ServerSession, "plan", fail)
    answer(good, sessions, fake_target)
    assert bad.failed is not None
    assert bad.failed.code is FailureCode.INTERNAL
    assert good.session.answer == decode([8, 1], SETTINGS.max_new_tokens)
    sessions.leave(good, 0.0)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_client_that_does_not_read_gives_everything_back(sessions: Sessions) -> None:
    stream, fake_target = OutgoingQueue(), FakeTarget()
    session = ClientSession("one that never reads", LIMITS)
    sessions.receive(stream, session.open([1, 2], SETTINGS), 0.0)
    while stream._waiting and not stream.ended:
        one_pass(sessions, fake_target)
        for _ in range(MAX_WAITING):
            stream.put(Opened("more"))
            if len(stream._waiting) == MAX_WAITING:
                break
    assert stream.ended
    assert (len(sessions), sessions.free_slots) == (0, 2000)
    assert (sum(sessions.counters.failed.values()), sessions.counters.refused) == (1, {})


@pytest.mark.parametrize("finished", [False, True])
def test_a_client_that_closes_its_side_is_heard_out(sessions: Sessions, finished: bool) -> None:
    client, fake_target = Client(sessions, "s"), FakeTarget()
    client.open([3, 4], Settings(max_new_tokens=3))
    if finished:
        answer(client, sessions, fake_target)
    sessions.half_close(client, 0.0)
    assert client.ended == finished
    answer(client, sessions, fake_target)
    assert client.ended
    assert client.session.answer == decode([3, 4], 3)
    assert len(sessions) == 0


@pytest.mark.parametrize("idle", ["lockstep", "eager"])
def test_an_answer_that_needs_a_client_that_is_silent_fails_with_a_sentence(idle: str) -> None:
    """It waits for its client's trees or acknowledgements."""
    sessions, fake_target = (
        Sessions(replace(TERMS, run_ahead=4, end_tokens=frozenset()), SERVING_LIMITS, 2000),
        FakeTarget(),
    )
    client = Client(sessions, "s")
    client.open([3, 4], Settings(max_new_tokens=40, idle=idle))
    sessions.half_close(client, 0.0)
    while not client.ended:
        assert one_pass(sessions, fake_target) or client.ended
    assert client.failed is not None
    assert "closed its side" in client.failed.message
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_silent_client_is_not_blamed_for_what_waits_for_the_servers_own_drafter() -> None:
    sessions, fake_target = new_sessions("colocated"), FakeTarget()
    client, helpers = begun(sessions, fake_target, [3, 1], "colocated"), Helpers(knowing_all([3, 1]), fake_target)
    sessions.half_close(client, 0.0)
    now = 0.0
    while not client.ended:
        now += 1.0
        waited = sessions.next_due() > now
        assert one_level(sessions, helpers) is not None or not waited
        long_pass(sessions, fake_target, now)
    client.hear()
    assert client.failed is None
    assert client.session.answer == truth_of([3, 1])


def test_draining_lets_answers_finish_and_refuses_the_rest(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    running, idle, late = (Client(sessions, name) for name in ("running", "idle", "late"))
    idle.open([1, 2], Settings(max_new_tokens=1))
    one_pass(sessions, fake_target)
    running.open([3, 4])
    sessions.drain()
    assert idle.ended
    assert isinstance(idle.inbox[-1], Finished)
    late.open([5, 6])
    assert late.failed is not None
    assert late.failed.code is FailureCode.DRAINING
    while not running.ended:
        one_pass(sessions, fake_target)
    running.hear()
    assert running.session.answer == decode([3, 4], SETTINGS.max_new_tokens)
    assert (len(sessions), sessions.free_slots) == (0, 2000)
