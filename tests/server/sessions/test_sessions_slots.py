"""What sessions do with slots that are scarce, and what is counted of the work on them."""

from dataclasses import replace

import pytest

from common.protocol.messages import (
    Commit,
    FailureCode,
    Grow,
    GrownNode,
    Settings,
)
from common.protocol.scheduled_tokens import PassResult
from common.protocol.server_session import ServerSession
from common.protocol.views import Proposal
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, SETTINGS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.proposers import guessing, knowing
from tests.server.thinker import VOCAB, Thinker, decode


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(TERMS, SERVING_LIMITS, capacity=2000)


def test_what_does_not_fit_is_refused(sessions: Sessions) -> None:
    small = Sessions(TERMS, ServingLimits(2, 48), capacity=100)
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
    sessions, thinker = Sessions(endless, SERVING_LIMITS, capacity=64), Thinker()
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
    sessions, thinker = Sessions(endless, SERVING_LIMITS, capacity=95), Thinker()
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
    held = {entry.session.id: len(entry.sequence) for entry in sessions._registry.entries}
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
    sessions, thinker = Sessions(endless, SERVING_LIMITS, capacity=40), Thinker()
    older, younger, newest = (Client(sessions, name) for name in ("older", "younger", "newest"))
    older.open(prompt_of(1, 15), Settings(max_new_tokens=100))
    younger.open(prompt_of(2, 15), Settings(max_new_tokens=100))
    newest.open([3], Settings(max_new_tokens=1))
    answer(newest, sessions, thinker)
    while younger.failed is None:
        one_pass(sessions, thinker)
        older.hear()
        younger.hear()
    newest.say(newest.session.extend(2, [7], Settings(max_new_tokens=5)))
    prompt = list(newest.session.tree.tokens)
    answer(newest, sessions, thinker)
    assert older.failed is None
    assert sessions.counters.preempted == 1
    assert newest.session.answer == decode(prompt, 5, end=-1)


def test_every_packed_token_is_accounted_for() -> None:
    """Once for each token of prompt and answer but the last, and once for each node that the target rejected."""
    sessions, thinker = Sessions(replace(TERMS, end_tokens=frozenset()), SERVING_LIMITS, 2000), Thinker()
    client, prompt = Client(sessions, "s"), prompt_of(1, 70)
    propose = knowing(prompt + decode(prompt, 40, end=-1), 0.8, VOCAB)
    client.open(prompt)
    rejected = 0
    while not client.done:
        planned = sessions.plan(0.0)
        assert planned is not None
        sessions.complete(planned, thinker.verify(planned.scheduled), 0.0)
        commits = [message for message in client.inbox if isinstance(message, Commit)]
        accepted = sum(len(commit.tokens) - 1 for commit in commits)
        rejected += len(planned.scheduled[0].nodes) - accepted
        client.hear()
        if not client.done:
            client.draft(propose)
    assert rejected
    assert sessions.counters.packed_tokens == len(prompt) + len(client.session.answer) - 1 + rejected


def test_an_accepted_node_that_lost_its_keys_and_values_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(replace(TERMS, end_tokens=frozenset()), SERVING_LIMITS, capacity=2000)
    complete = ServerSession.complete

    def forgetful(session: ServerSession, *outcome: object) -> PassResult:
        result = complete(session, *outcome)  # type: ignore[arg-type]
        session.processed -= len(result.nodes_kept)
        return replace(result, nodes_kept=())

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
    sessions.complete(overtaken, thinker.verify(overtaken.scheduled), 0.0)
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
