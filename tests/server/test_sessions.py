"""Many sessions without a model: exact answers, no slot lost, no session harmed by another."""

import random
from dataclasses import replace

import pytest

from common.models.segment import Segment
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import (
    Cancel,
    Commit,
    Extend,
    Failed,
    FailureCode,
    Finished,
    FromServer,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
)
from common.protocol.server_session import Progress, ServerSession, Work
from common.protocol.terms import Terms
from common.protocol.views import Proposal
from server import batch
from server.sessions import Bounds, Sessions
from server.stream import MAX_WAITING, Stream
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
        self.session = ClientSession(f"a session called {name}", LIMITS)
        self.inbox: list[FromServer] = []
        self.ended = False

    def put(self, message: FromServer) -> None:
        self.inbox.append(message)

    def end(self) -> None:
        self.ended = True

    def say(self, message: Open | Extend | Grow | Cancel | None, now: float = 0.0) -> None:
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


def answer(client: Client, sessions: Sessions, thinker: Thinker) -> None:
    """Plain decoding to the end of the turn."""
    client.hear()
    while not client.done:
        assert one_pass(sessions, thinker)
        client.hear()


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
    newer.say(Open(99, "f", newer.session.id, 0, (1, 2), 2, SETTINGS))
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


def test_finished_sessions_are_parked_before_anyone_fails() -> None:
    """Least recently served first; what was parked is computed again when its next turn comes."""
    endless = replace(TERMS, end_tokens=frozenset())
    sessions, thinker = Sessions(endless, BOUNDS, capacity=95), Thinker()
    idle = [Client(sessions, str(index)) for index in range(3)]
    for index, client in enumerate(idle):
        client.open(prompt_of(index, 20), Settings(max_new_tokens=2))
        answer(client, sessions, thinker)
    running = Client(sessions, "running")
    prompt = prompt_of(9, 30)
    running.open(prompt, Settings(max_new_tokens=20))
    answer(running, sessions, thinker)
    assert running.session.answer == decode(prompt, 20, end=-1)
    assert [client.failed for client in idle] == [None] * 3
    held = {member.session.id: len(member.sequence) for member in sessions._members.values()}
    assert [held[client.session.id] for client in idle] == [0, 21, 21]
    first = idle[0].session
    idle[0].say(first.extend(first.tree.frontier, [7], Settings(max_new_tokens=5)))
    prompt = list(first.tree.tokens)
    answer(idle[0], sessions, thinker)
    assert first.answer == decode(prompt, 5, end=-1)
    assert sessions.counters.recomputed_tokens == 0


def test_only_who_holds_slots_is_failed_for_them() -> None:
    """The last to come was parked and holds none."""
    endless = replace(TERMS, end_tokens=frozenset())
    sessions, thinker = Sessions(endless, BOUNDS, capacity=40), Thinker()
    older, younger, newest = (Client(sessions, name) for name in ("older", "younger", "newest"))
    older.open(prompt_of(1, 15), Settings(max_new_tokens=100))
    younger.open(prompt_of(2, 15), Settings(max_new_tokens=100))
    newest.open([3], Settings(max_new_tokens=1))
    answer(newest, sessions, thinker)
    while sessions.free_slots:
        one_pass(sessions, thinker)
        older.hear()
        younger.hear()
    newest.say(newest.session.extend(2, [7], Settings(max_new_tokens=5)))
    prompt = list(newest.session.tree.tokens)
    answer(newest, sessions, thinker)
    assert younger.failed is not None
    assert older.failed is None
    assert newest.session.answer == decode(prompt, 5, end=-1)


def test_a_session_that_cannot_be_planned_fails_alone(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    thinker = Thinker()
    bad, good = Client(sessions, "bad"), Client(sessions, "good")
    bad.open([9, 1])
    good.open([8, 1])
    make_segment = batch.make_segment

    def stumble(work: Work, *held: object) -> Segment:
        if work.chain[0] == 9:
            raise ArithmeticError("it was not foreseen")
        return make_segment(work, *held)  # type: ignore[arg-type]

    monkeypatch.setattr("server.sessions.make_segment", stumble)
    answer(good, sessions, thinker)
    assert bad.failed is not None
    assert bad.failed.code is FailureCode.INTERNAL
    assert good.session.answer == decode([8, 1], SETTINGS.max_new_tokens)
    sessions.leave(good)
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_client_that_does_not_read_gives_everything_back(sessions: Sessions) -> None:
    stream, thinker = Stream(), Thinker()
    session = ClientSession("one that never reads", LIMITS)
    sessions.receive(stream, session.open([1, 2], SETTINGS), 0.0)
    while stream._waiting and not stream.ended:
        one_pass(sessions, thinker)
        for _ in range(MAX_WAITING):
            stream.put(Opened("more"))
            if len(stream._waiting) == MAX_WAITING:
                break
    assert stream.ended
    assert (len(sessions), sessions.free_slots) == (0, 2000)
    assert sessions.counters.failures == 1


@pytest.mark.parametrize("finished", [False, True])
def test_a_client_that_closes_its_side_is_heard_out(sessions: Sessions, finished: bool) -> None:
    client, thinker = Client(sessions, "s"), Thinker()
    client.open([3, 4], Settings(max_new_tokens=3))
    if finished:
        answer(client, sessions, thinker)
    sessions.hear_out(client)
    assert client.ended == finished
    answer(client, sessions, thinker)
    assert client.ended
    assert client.session.answer == decode([3, 4], 3)
    assert len(sessions) == 0


@pytest.mark.parametrize("idle", ["lockstep", "eager"])
def test_an_answer_that_needs_a_client_that_is_silent_fails_with_a_sentence(idle: str) -> None:
    """For its trees, or for its acknowledgements."""
    sessions, thinker = Sessions(replace(TERMS, run_ahead=4, end_tokens=frozenset()), BOUNDS, 2000), Thinker()
    client = Client(sessions, "s")
    client.open([3, 4], Settings(max_new_tokens=40, idle=idle))
    sessions.hear_out(client)
    while not client.ended:
        assert one_pass(sessions, thinker) or client.ended
    assert client.failed is not None
    assert "closed its side" in client.failed.message
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_every_packed_token_is_accounted_for() -> None:
    """Once for each token of prompt and answer but the last, and once for each node that the target rejected."""
    sessions, thinker = Sessions(replace(TERMS, end_tokens=frozenset()), BOUNDS, 2000), Thinker()
    client, prompt = Client(sessions, "s"), prompt_of(1, 70)
    propose = knowing(prompt + decode(prompt, 40, end=-1), 0.8, VOCAB)
    client.open(prompt)
    rejected = 0
    while not client.done:
        planned = sessions.plan(0.0)
        assert planned is not None
        sessions.complete(planned, thinker.choose(planned.segments), 0.0)
        commits = [message for message in client.inbox if isinstance(message, Commit)]
        accepted = sum(len(commit.tokens) - 1 for commit in commits)
        rejected += len(planned.parts[0].work.nodes) - accepted
        client.hear()
        if not client.done:
            client.draft(propose)
    assert rejected
    assert sessions.counters.packed_tokens == len(prompt) + len(client.session.answer) - 1 + rejected


def test_an_accepted_node_that_lost_its_keys_and_values_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(replace(TERMS, end_tokens=frozenset()), BOUNDS, capacity=2000)
    complete = ServerSession.complete

    def forgetful(session: ServerSession, *outcome: object) -> Progress:
        progress = complete(session, *outcome)  # type: ignore[arg-type]
        session.processed -= len(progress.nodes_kept)
        return replace(progress, nodes_kept=())

    monkeypatch.setattr(ServerSession, "complete", forgetful)
    client, prompt, thinker = Client(sessions, "s"), prompt_of(1, 20), Thinker()
    truth = decode(prompt, SETTINGS.max_new_tokens, end=-1)
    client.open(prompt)
    while not client.done:
        one_pass(sessions, thinker)
        client.hear()
        if not client.done:
            client.draft(knowing(prompt + truth, 0.8, VOCAB))
    assert client.session.answer == truth
    assert sessions.counters.recomputed_tokens > 5


def test_what_must_be_computed_again_is_no_repeat(sessions: Sessions) -> None:
    """A turn that appends nothing needs the logits of its root; a pass that was discarded kept nothing."""
    client, thinker = Client(sessions, "s"), Thinker()
    client.open([3, 4], Settings(max_new_tokens=4))
    view, truth = client.session.view(), decode([3, 4], 4)
    client.say(client.session.propose(len(view.tokens), [Proposal(0, truth[0], -0.1)]))
    answer(client, sessions, thinker)
    client.say(client.session.extend(client.session.tree.frontier, [], SETTINGS))
    overtaken = sessions.plan(0.0)
    assert overtaken is not None
    client.say(client.session.cancel())
    sessions.complete(overtaken, thinker.choose(overtaken.segments), 0.0)
    client.hear()
    client.say(client.session.extend(client.session.tree.frontier, [], SETTINGS))
    answer(client, sessions, thinker)
    assert sessions.counters.recomputed_tokens == 0


def test_stale_nodes_reach_the_summary(sessions: Sessions) -> None:
    client, thinker = Client(sessions, "s"), Thinker()
    client.open([3, 4])
    wrong = (decode([3, 4], 1)[0] + 1) % VOCAB
    one_pass(sessions, thinker)
    client.say(Grow(0, 2, (GrownNode(1, 0, wrong, -0.1), GrownNode(2, 1, 5, -0.1))))
    assert sessions.counters.summary()["stale_nodes"] == 2


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
