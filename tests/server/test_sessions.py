"""Many sessions without a model: exact answers, no slot lost, no session harmed by another."""

import random
from dataclasses import replace

import pytest

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, Failed, FailureCode, Finished, FromServer, Grow, GrownNode, Open, Settings
from common.protocol.terms import Terms
from server.sessions import Bounds, Sessions
from tests.server.proposers import Proposer, guessing, knowing, nothing
from tests.server.thinker import END, VOCAB, Thinker, decode

TERMS = Terms("f", VOCAB, 400, frozenset({END}), lambda tokens: "", idle="eager", max_nodes=64)
LIMITS = Limits("f", VOCAB, 400, 64)
BOUNDS = Bounds(max_sessions=16, pass_tokens=48)
SETTINGS = Settings(max_new_tokens=40)


class Client:
    """A listener with a client session behind it, on a link without delay."""

    def __init__(self, sessions: Sessions, name: str):
        self.sessions = sessions
        self.session = ClientSession(name, LIMITS)
        self.inbox: list[FromServer] = []
        self.ended = False

    def put(self, message: FromServer) -> None:
        self.inbox.append(message)

    def end(self) -> None:
        self.ended = True

    def say(self, message: Open | Extend | Grow | None, now: float = 0.0) -> None:
        if message is not None:
            try:
                self.sessions.receive(self, message, now)
            except PeerError as error:
                self.sessions.fail(self, error)

    def open(self, prompt: list[int], settings: Settings = SETTINGS) -> None:
        self.say(self.session.open(prompt, settings))

    def hear(self) -> None:
        while self.inbox and not self.failed:
            self.session.receive(self.inbox.pop(0))
            self.say(self.session.acknowledge())

    def draft(self, propose: Proposer) -> None:
        view = self.session.view()
        self.say(self.session.propose(len(view.tokens), propose(view)))

    @property
    def failed(self) -> Failed | None:
        return next((message for message in self.inbox if isinstance(message, Failed)), None)

    @property
    def done(self) -> bool:
        return self.failed is not None or self.ended or self.session.finished is not None


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(TERMS, BOUNDS, capacity=2000)


def one_pass(sessions: Sessions, thinker: Thinker, now: float = 0.0) -> int:
    batch = sessions.plan(now)
    if batch is None:
        return 0
    sessions.complete(batch, thinker.choose(batch.segments), now)
    return len(batch.parts)


def prompt_of(index: int, length: int) -> list[int]:
    dice = random.Random(index)
    return [1 + dice.randrange(VOCAB - 1) for _ in range(length)]


def test_sessions_with_every_kind_of_drafter_are_exact_and_nothing_leaks(sessions: Sessions) -> None:
    thinker = Thinker()
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
        one_pass(sessions, thinker)
    assert [client.session.answer for client in clients] == truths
    assert sessions.counters.recomputed_tokens == 0
    assert sessions.counters.committed_tokens == sum(map(len, truths))
    for client in clients:
        sessions.leave(client)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_turn_keeps_what_it_can_and_recomputes_nothing(sessions: Sessions) -> None:
    thinker = Thinker()
    client = Client(sessions, "s")
    client.open([3, 4, 5])
    for keep in (None, 2, 3, 0):
        if keep is not None:
            kept = client.session.tree.tokens[: len(client.session.tree.tokens) - keep]
            client.say(client.session.extend(len(kept), [7, 8], SETTINGS))
        prompt = list(client.session.tree.tokens)
        while not client.done:
            one_pass(sessions, thinker)
            client.hear()
        assert client.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_nodes_that_arrive_during_a_pass_survive_it(sessions: Sessions) -> None:
    thinker = Thinker()
    client = Client(sessions, "s")
    prompt = [3, 4, 5]
    truth = decode(prompt, SETTINGS.max_new_tokens)
    client.open(prompt)
    batch = sessions.plan(0.0)
    assert batch is not None
    client.say(Grow(0, 3, tuple(GrownNode(i + 1, i, truth[i], -0.1) for i in range(4))))
    sessions.complete(batch, thinker.choose(batch.segments), 0.0)
    one_pass(sessions, thinker)
    client.hear()
    client.hear()
    assert client.session.answer == truth[:5]


@pytest.mark.parametrize("leaves_in_mid_pass", [False, True])
def test_a_session_that_leaves_gives_everything_back(sessions: Sessions, leaves_in_mid_pass: bool) -> None:
    thinker = Thinker()
    client = Client(sessions, "s")
    client.open(prompt_of(1, 30))
    batch = sessions.plan(0.0)
    assert batch is not None
    if leaves_in_mid_pass:
        sessions.leave(client)
    sessions.complete(batch, thinker.choose(batch.segments), 0.0)
    sessions.leave(client)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_pass_that_cannot_compute_one_session_fails_that_one(sessions: Sessions) -> None:
    thinker = Thinker(poison=9)
    bad, good = Client(sessions, "bad"), Client(sessions, "good")
    bad.open([9, 1])
    good.open([8, 1])
    while not good.done:
        one_pass(sessions, thinker)
        good.hear()
    assert bad.failed is not None
    assert bad.failed.code is FailureCode.INTERNAL
    assert good.session.answer == decode([8, 1], SETTINGS.max_new_tokens)
    sessions.leave(good)
    assert sessions.free_slots == 2000


def test_the_newest_stream_of_a_session_wins(sessions: Sessions) -> None:
    thinker = Thinker()
    older, newer = Client(sessions, "s"), Client(sessions, "s")
    prompt = prompt_of(2, 20)
    older.open(prompt)
    one_pass(sessions, thinker)
    one_pass(sessions, thinker)
    newer.open(prompt)
    assert older.ended
    assert not newer.ended
    sessions.leave(older)
    assert len(sessions) == 1
    while not newer.done:
        newer.hear()
        one_pass(sessions, thinker)
    assert newer.session.answer == decode(prompt, SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_a_faulty_open_does_not_take_over_a_session(sessions: Sessions) -> None:
    older, newer = Client(sessions, "s"), Client(sessions, "s")
    older.open([1, 2])
    newer.say(Open(99, "f", "s", 0, (1, 2), 2, SETTINGS))
    assert newer.failed is not None
    assert newer.failed.code is FailureCode.VERSION
    assert not older.ended


def test_what_does_not_fit_is_refused(sessions: Sessions) -> None:
    small = Sessions(TERMS, Bounds(2, 48), capacity=100)
    first, second, third = (Client(small, name) for name in "abc")
    first.open(prompt_of(1, 60))
    second.open(prompt_of(2, 60))
    assert second.failed is not None
    assert second.failed.code is FailureCode.OVERLOADED
    assert "60 tokens" in second.failed.message
    third.open([1])
    fourth = Client(small, "d")
    fourth.open([1])
    assert fourth.failed is not None
    assert "another session" in fourth.failed.message
    assert not first.ended


def test_running_out_of_slots_drops_nodes_first_and_then_the_youngest() -> None:
    endless = replace(TERMS, end_tokens=frozenset())
    sessions, thinker = Sessions(endless, BOUNDS, capacity=64), Thinker()
    prompts = [[3, 5], [11, 5]]
    older, younger = (Client(sessions, str(index)) for index in range(2))
    for client, prompt in zip((older, younger), prompts, strict=True):
        client.open(prompt, Settings(max_new_tokens=50))
    while not older.done:
        for index, client in enumerate((older, younger)):
            client.hear()
            if not client.done:
                client.draft(guessing(VOCAB, index))
        one_pass(sessions, thinker)
    assert younger.failed is not None
    assert younger.failed.code is FailureCode.OVERLOADED
    assert len(younger.session.answer) > 20
    assert older.session.answer == decode(prompts[0], 50, end=-1)


def test_draining_lets_answers_finish_and_refuses_the_rest(sessions: Sessions) -> None:
    thinker = Thinker()
    running, idle, late = (Client(sessions, name) for name in ("running", "idle", "late"))
    idle.open([1, 2], Settings(max_new_tokens=1))
    one_pass(sessions, thinker)
    running.open([3, 4])
    sessions.drain()
    assert idle.ended
    assert isinstance(idle.inbox[-1], Finished)
    late.open([5, 6])
    assert late.failed is not None
    assert late.failed.code is FailureCode.DRAINING
    while not running.ended:
        one_pass(sessions, thinker)
    running.hear()
    assert running.session.answer == decode([3, 4], SETTINGS.max_new_tokens)
    assert (len(sessions), sessions.free_slots) == (0, 2000)
