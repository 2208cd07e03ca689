"""Sessions that want draft state and no answer, among others: all of it arrives, no token is chosen, nobody waits."""

from dataclasses import replace

import pytest

from common.protocol.messages import Commit, Finished, FinishReason, Settings
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, one_pass, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, FakeTarget, decode
from tests.server.sessions.test_sessions_state import KINDS, check_states, covered

STATEFUL = replace(TERMS, state_kinds=lambda request: STATE_KINDS, end_tokens=frozenset())
STATE_ALONE = Settings(max_new_tokens=0)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(STATEFUL, SERVING_LIMITS, capacity=2000)


def play(sessions: Sessions, fake_target: FakeTarget, *clients: Client) -> None:
    for _ in range(200):
        if all(client.done for client in clients):
            return
        one_pass(sessions, fake_target)
        for client in clients:
            client.hear()
    raise AssertionError("a session stands still")


def test_all_state_of_the_prompt_comes_and_no_token(sessions: Sessions) -> None:
    alone, beside, fake_target = Client(sessions, "alone", STATE), Client(sessions, "beside", STATE), FakeTarget()
    prompt = prompt_of(1, 150)
    alone.open(prompt, STATE_ALONE)
    beside.open(prompt_of(2, 20), Settings(12))
    play(sessions, fake_target, alone, beside)
    assert alone.session.finished == Finished(0, 150, FinishReason.LENGTH)
    assert alone.session.tree.tokens == prompt
    assert {kind: sorted(covered(alone, kind)) for kind in KINDS} == {kind: list(range(150)) for kind in KINDS}
    check_states(alone)
    assert beside.session.answer == decode(prompt_of(2, 20), 12, end=-1)
    assert sessions.counters.committed_tokens == 12
    assert not any(isinstance(message, Commit) for message in alone.inbox)


def test_an_answer_may_follow_and_computes_only_its_root_again(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    prompt = prompt_of(1, 100)
    client.open(prompt, STATE_ALONE)
    play(sessions, fake_target, client)
    before = sessions.counters.packed_tokens
    client.say(client.session.extend(100, [], Settings(1)))
    play(sessions, fake_target, client)
    assert client.session.answer == decode(prompt, 1, end=-1)
    assert sessions.counters.packed_tokens == before + 1


def test_a_turn_that_keeps_a_part_computes_nothing_again_for_its_state(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No token is chosen at its root, which the turn before has computed."""
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    client.open(prompt_of(1, 20), Settings(12))
    with monkeypatch.context() as patch:
        patch.setattr(client.session, "acknowledge_state", lambda: None)
        while not client.session.finished:
            one_pass(sessions, fake_target)
            client.hear()
    packed = sessions.counters.packed_tokens
    client.say(client.session.extend(25, [], STATE_ALONE))
    assert client.session.finished is None
    play(sessions, fake_target, client)
    assert client.session.finished == Finished(1, 25, FinishReason.LENGTH)
    assert sessions.counters.packed_tokens == packed
    assert sessions.counters.recomputed_tokens == 0


def test_state_that_cannot_be_made_is_not_waited_for(sessions: Sessions) -> None:
    class FailingTarget(FakeTarget):
        def make(self, requests):  # type: ignore[no-untyped-def]
            return [None for _ in super().make(requests)]

    client, fake_target = Client(sessions, "s", STATE), FailingTarget()
    client.open(prompt_of(1, 30), STATE_ALONE)
    play(sessions, fake_target, client)
    assert client.session.finished == Finished(0, 30, FinishReason.LENGTH)
    client.say(client.session.extend(30, [1, 2], STATE_ALONE))
    play(sessions, fake_target, client)
    assert client.session.finished == Finished(1, 32, FinishReason.LENGTH)
    assert client.states == []
