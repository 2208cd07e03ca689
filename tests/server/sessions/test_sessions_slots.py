"""What sessions do when slots are scarce, and how the work on them is counted."""

from dataclasses import replace

import pytest

from common.protocol.messages import (
    Commit,
    FailureCode,
    Grow,
    GrownNode,
    Settings,
)
from common.protocol.scheduled_tokens import SessionProgress
from common.protocol.server_session import ServerSession
from common.protocol.views import Proposal
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, SETTINGS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.proposers import guessing, knowing


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
    sessions, fake_target = Sessions(endless, SERVING_LIMITS, capacity=64), FakeTarget()
    prompts = [[3, 5], [11, 5]]
    older, younger = (Client(sessions, str(index)) for index in range(2))
    for client, prompt in zip((older, younger), prompts, strict=True):
        client.open(prompt, Settings(max_new_tokens=50))
    while not older.done:
        for index, client in enumerate((older, younger)):
            client.hear()
            if not client.done:
                client.draft(guessing(VOCAB, index))
        one_pass(sessions, fake_target)
    assert younger.failed is not None
    assert younger.failed.code is FailureCode.OVERLOADED
    assert len(younger.session.answer) > 20
    assert older.session.answer == decode(prompts[0], 50, end=-1)


def test_finished_sessions_are_parked_before_anyone_fails() -> None:
    """The least recently served first; a parked session is computed again when its next turn comes."""
    endless = replace(TERMS, end_tokens=frozenset())
    sessions, fake_target = Sessions(endless, SERVING_LIMITS, capacity=95), FakeTarget()
    idle = [Client(sessions, str(index)) for index in range(3)]
    for index, client in enumerate(idle):
        client.open(prompt_of(index, 20), Settings(max_new_tokens=2))
        answer(client, sessions, fake_target)
    running = Client(sessions, "running")
    prompt = prompt_of(9, 30)
    running.open(prompt, Settings(max_new_tokens=20))
    answer(running, sessions, fake_target)
    assert running.session.answer == decode(prompt, 20, end=-1)
    assert [client.failed for client in idle] == [None] * 3
    held = {entry.session.id: len(entry.sequence) for entry in sessions._registry.entries}
    assert [held[client.session.id] for client in idle] == [0, 21, 21]
    first = idle[0].session
    idle[0].say(first.extend(first.tree.frontier, [7], Settings(max_new_tokens=5)))
    prompt = list(first.tree.tokens)
    answer(idle[0], sessions, fake_target)
    assert first.answer == decode(prompt, 5, end=-1)
    assert sessions.counters.recomputed_tokens == 0


def test_only_who_holds_slots_is_failed_for_them() -> None:
    """The newest session was parked and holds none."""
    endless = replace(TERMS, end_tokens=frozenset())
    sessions, fake_target = Sessions(endless, SERVING_LIMITS, capacity=40), FakeTarget()
    older, younger, newest = (Client(sessions, name) for name in ("older", "younger", "newest"))
    older.open(prompt_of(1, 15), Settings(max_new_tokens=100))
    younger.open(prompt_of(2, 15), Settings(max_new_tokens=100))
    newest.open([3], Settings(max_new_tokens=1))
    answer(newest, sessions, fake_target)
    while younger.failed is None:
        one_pass(sessions, fake_target)
        older.hear()
        younger.hear()
    newest.say(newest.session.extend(2, [7], Settings(max_new_tokens=5)))
    prompt = list(newest.session.tree.tokens)
    answer(newest, sessions, fake_target)
    assert older.failed is None
    assert sessions.counters.preempted == 1
    assert newest.session.answer == decode(prompt, 5, end=-1)


def test_every_packed_token_is_accounted_for() -> None:
    """Once for each token of prompt and answer but the last, and once for each node that the target rejected."""
    sessions, fake_target = Sessions(replace(TERMS, end_tokens=frozenset()), SERVING_LIMITS, 2000), FakeTarget()
    client, prompt = Client(sessions, "s"), prompt_of(1, 70)
    propose = knowing(prompt + decode(prompt, 40, end=-1), 0.8, VOCAB)
    client.open(prompt)
    rejected = 0
    while not client.done:
        planned = sessions.plan(0.0)
        assert planned is not None
        sessions.complete(planned, fake_target.verify(planned.scheduled), 0.0)
        commits = [message for message in client.inbox if isinstance(message, Commit)]
        accepted = sum(len(commit.tokens) - 1 for commit in commits)
        rejected += planned.scheduled[0].nodes - accepted
        client.hear()
        if not client.done:
            client.draft(propose)
    assert rejected
    assert sessions.counters.packed_tokens == len(prompt) + len(client.session.answer) - 1 + rejected


def test_an_accepted_node_that_lost_its_keys_and_values_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(replace(TERMS, end_tokens=frozenset()), SERVING_LIMITS, capacity=2000)
    complete = ServerSession.complete

    def forgetful(session: ServerSession, *outcome: object) -> SessionProgress:
        progress = complete(session, *outcome)  # type: ignore[arg-type]
        session.processed -= len(progress.nodes_kept)
        return replace(progress, nodes_kept=())

    monkeypatch.setattr(ServerSession, "complete", forgetful)
    client, prompt, fake_target = Client(sessions, "s"), prompt_of(1, 20), FakeTarget()
    truth = decode(prompt, SETTINGS.max_new_tokens, end=-1)
    client.open(prompt)
    while not client.done:
        one_pass(sessions, fake_target)
        client.hear()
        if not client.done:
            client.draft(knowing(prompt + truth, 0.8, VOCAB))
    assert client.session.answer == truth
    assert sessions.counters.recomputed_tokens > 5


def test_what_must_be_computed_again_is_no_repeat(sessions: Sessions) -> None:
    """A turn that appends nothing needs the logits of its root; a discarded pass kept nothing."""
    client, fake_target = Client(sessions, "s"), FakeTarget()
    client.open([3, 4], Settings(max_new_tokens=4))
    view, truth = client.session.view(), decode([3, 4], 4)
    client.say(client.session.propose(len(view.tokens), [Proposal(0, truth[0], -0.1)]))
    answer(client, sessions, fake_target)
    client.say(client.session.extend(client.session.tree.frontier, [], SETTINGS))
    overtaken = sessions.plan(0.0)
    assert overtaken is not None
    client.say(client.session.cancel())
    sessions.complete(overtaken, fake_target.verify(overtaken.scheduled), 0.0)
    client.hear()
    client.say(client.session.extend(client.session.tree.frontier, [], SETTINGS))
    answer(client, sessions, fake_target)
    assert sessions.counters.recomputed_tokens == 0


def test_a_prompt_that_its_client_left_and_asks_again_is_no_repeat(sessions: Sessions) -> None:
    """Its K/V went with the prompt in between, which was left before its first pass."""
    client, fake_target = Client(sessions, "s"), FakeTarget()
    first, between = prompt_of(1, 30), prompt_of(2, 30)
    client.open(first, Settings(max_new_tokens=2))
    answer(client, sessions, fake_target)
    client.say(client.session.extend(0, between, SETTINGS))
    client.say(client.session.cancel())
    client.hear()
    client.say(client.session.extend(0, first, Settings(max_new_tokens=2)))
    answer(client, sessions, fake_target)
    assert client.session.answer == decode(first, 2)
    assert sessions.counters.recomputed_tokens == 0


def test_what_its_client_drops_and_sends_again_is_no_repeat(sessions: Sessions) -> None:
    client, fake_target, prompt = Client(sessions, "s"), FakeTarget(), prompt_of(1, 30)
    client.open(prompt, Settings(max_new_tokens=2))
    answer(client, sessions, fake_target)
    client.say(client.session.extend(0, [*prompt, 7], Settings(max_new_tokens=2)))
    answer(client, sessions, fake_target)
    assert client.session.answer == decode([*prompt, 7], 2)
    assert sessions.counters.recomputed_tokens == 0


def test_a_root_whose_answer_was_cancelled_before_its_pass_is_computed_once_more_and_is_no_repeat(
    sessions: Sessions,
) -> None:
    client, fake_target, prompt = Client(sessions, "s"), FakeTarget(), prompt_of(1, 30)
    client.open(prompt, Settings(max_new_tokens=2))
    answer(client, sessions, fake_target)
    client.say(client.session.extend(len(prompt), [], SETTINGS))
    client.say(client.session.cancel())
    client.hear()
    client.say(client.session.extend(len(prompt), [7, 8], Settings(max_new_tokens=2)))
    answer(client, sessions, fake_target)
    assert client.session.answer == decode([*prompt, 7, 8], 2)
    assert sessions.counters.recomputed_tokens == 0


def test_what_a_session_lost_between_its_turns_is_noticed(sessions: Sessions) -> None:
    client, fake_target, prompt = Client(sessions, "s"), FakeTarget(), prompt_of(1, 30)
    client.open(prompt, Settings(max_new_tokens=2))
    answer(client, sessions, fake_target)
    (entry,) = sessions._registry.entries
    entry.session.processed -= 5
    entry.sequence.cut(entry.session.processed)
    client.say(client.session.extend(client.session.tree.frontier, [7], SETTINGS))
    one_pass(sessions, fake_target)
    assert sessions.counters.recomputed_tokens == 5


def test_stale_nodes_reach_the_summary(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s"), FakeTarget()
    client.open([3, 4])
    wrong = (decode([3, 4], 1)[0] + 1) % VOCAB
    one_pass(sessions, fake_target)
    client.say(Grow(0, 2, (GrownNode(1, 0, wrong, -0.1), GrownNode(2, 1, 5, -0.1))))
    assert sessions.counters.summary()["stale_nodes"] == 2
