"""Sessions that want draft state and no answer, among others: all of it comes, nothing is chosen, nobody waits."""

from dataclasses import replace

import pytest

from common.protocol.messages import Commit, Finished, FinishReason, Settings
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, one_pass, prompt_of
from tests.server.sessions.test_sessions_state import KINDS, check_states, covered
from tests.server.thinker import STATE, STATE_KINDS, Thinker, decode

STATEFUL = replace(TERMS, state_kinds=lambda request: STATE_KINDS, end_tokens=frozenset())
STATE_ALONE = Settings(max_new_tokens=0)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(STATEFUL, SERVING_LIMITS, capacity=2000)


def play(sessions: Sessions, thinker: Thinker, *clients: Client) -> None:
    for _ in range(200):
        if all(client.done for client in clients):
            return
        one_pass(sessions, thinker)
        for client in clients:
            client.hear()
    raise AssertionError("a session stands still")


def test_all_state_of_the_prompt_comes_and_no_token(sessions: Sessions) -> None:
    alone, beside, thinker = Client(sessions, "alone", STATE), Client(sessions, "beside", STATE), Thinker()
    prompt = prompt_of(1, 150)
    alone.open(prompt, STATE_ALONE)
    beside.open(prompt_of(2, 20), Settings(12))
    play(sessions, thinker, alone, beside)
    assert alone.session.finished == Finished(0, 150, FinishReason.LENGTH)
    assert alone.session.tree.tokens == prompt
    assert {kind: sorted(covered(alone, kind)) for kind in KINDS} == {kind: list(range(150)) for kind in KINDS}
    check_states(alone)
    assert beside.session.answer == decode(prompt_of(2, 20), 12, end=-1)
    assert sessions.counters.committed_tokens == 12
    assert not any(isinstance(message, Commit) for message in alone.inbox)


def test_an_answer_may_follow_and_computes_only_its_root_again(sessions: Sessions) -> None:
    client, thinker = Client(sessions, "s", STATE), Thinker()
    prompt = prompt_of(1, 100)
    client.open(prompt, STATE_ALONE)
    play(sessions, thinker, client)
    before = sessions.counters.packed_tokens
    client.say(client.session.extend(100, [], Settings(1)))
    play(sessions, thinker, client)
    assert client.session.answer == decode(prompt, 1, end=-1)
    assert sessions.counters.packed_tokens == before + 1


def test_a_turn_that_keeps_a_part_computes_nothing_again_for_its_state(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is chosen at its root, which the turn before has computed."""
    client, thinker = Client(sessions, "s", STATE), Thinker()
    client.open(prompt_of(1, 20), Settings(12))
    with monkeypatch.context() as patch:
        patch.setattr(client.session, "acknowledge_state", lambda: None)
        while not client.session.finished:
            one_pass(sessions, thinker)
            client.hear()
    packed = sessions.counters.packed_tokens
    client.say(client.session.extend(25, [], STATE_ALONE))
    assert client.session.finished is None
    play(sessions, thinker, client)
    assert client.session.finished == Finished(1, 25, FinishReason.LENGTH)
    assert sessions.counters.packed_tokens == packed
    assert sessions.counters.recomputed_tokens == 0


def test_state_that_cannot_be_made_is_not_waited_for(sessions: Sessions) -> None:
    class Stumbling(Thinker):
        def make(self, requests):  # type: ignore[no-untyped-def]
            return [None for _ in super().make(requests)]

    client, thinker = Client(sessions, "s", STATE), Stumbling()
    client.open(prompt_of(1, 30), STATE_ALONE)
    play(sessions, thinker, client)
    assert client.session.finished == Finished(0, 30, FinishReason.LENGTH)
    client.say(client.session.extend(30, [1, 2], STATE_ALONE))
    play(sessions, thinker, client)
    assert client.session.finished == Finished(1, 32, FinishReason.LENGTH)
    assert client.states == []
