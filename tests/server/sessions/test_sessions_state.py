"""Draft state of many sessions without a model: from the right slots, in turn, and never delaying tokens."""

from dataclasses import replace

import pytest

from common.protocol.draft_state import StateKind
from common.protocol.messages import Commit, FailureCode, Settings, State
from common.protocol.terms import no_state
from server.passes.state_export import MAX_POSITIONS_PER_STEP
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, SETTINGS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode
from tests.server.proposers import guessing, knowing, nothing

# Without an end token, so that every answer is long enough.
STATEFUL = replace(TERMS, state_kinds=lambda request: STATE_KINDS, end_tokens=frozenset())
KINDS = tuple(kind.name for kind in STATE_KINDS)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(STATEFUL, SERVING_LIMITS, capacity=2000)


def check_states(client: Client) -> None:
    """Every frame of this turn holds what the target computed for its positions."""
    for state in client.states:
        if state.turn == client.session.turn:
            assert list(state.payload) == client.session.tree.tokens[state.start : state.start + state.count]


def covered(client: Client, kind: str, turn: int = 0) -> list[int]:
    states = [state for state in client.states if state.kind == kind and state.turn == turn]
    return [state.start + index for state in states for index in range(state.count)]


def test_state_of_every_position_comes_once_and_is_of_its_own_token(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    clients, proposers, truths = [], [], []
    for index in range(6):
        prompt = prompt_of(index, 5 + 30 * index)
        truth = decode(prompt, SETTINGS.max_new_tokens, end=-1)
        client = Client(sessions, str(index), STATE)
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
    for client in clients:
        check_states(client)
        for kind in KINDS:
            positions = covered(client, kind)
            assert len(set(positions)) == len(positions)
            # What the last passes computed is not sent any more.
            assert set(range(client.session.tree.frontier - 30)) <= set(positions)
    assert sessions.counters.state_frames == sum(len(client.states) for client in clients)
    assert set(sessions.counters.state_bytes) == set(KINDS)
    assert sessions.counters.state_bytes["lsa"] == sum(
        len(state.payload) for client in clients for state in client.states if state.kind == "lsa"
    )


def test_state_follows_its_commit_and_precedes_the_next(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    client.open(prompt_of(1, 6))
    for _ in range(4):
        one_pass(sessions, fake_target)
    kinds = [type(message) for message in client.inbox]
    assert kinds[1:] == [Commit, State, State] * 3 + [Commit]
    client.hear()
    assert covered(client, "lsa") == [*range(6), 6, 7]


def test_sessions_that_ask_for_none_get_none(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s"), FakeTarget()
    client.open([3, 4])
    answer(client, sessions, fake_target)
    assert sessions.counters.state_frames == 0


def test_turns_that_rewrite_history_are_sent_what_is_new(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    client.open(prompt_of(3, 20))
    answer(client, sessions, fake_target)
    for turn, cut in ((1, 2), (2, 30), (3, 0)):
        keep = client.session.tree.frontier - cut
        client.say(client.session.extend(keep, [7, 8, 9], SETTINGS))
        answer(client, sessions, fake_target)
        check_states(client)
        assert set(range(keep, client.session.tree.frontier - 6)) <= set(covered(client, "lsa", turn))


def test_a_parked_session_is_sent_state_only_of_what_is_computed_again() -> None:
    sessions, fake_target = Sessions(STATEFUL, ServingLimits(4, 16), capacity=100), FakeTarget()
    parked, other = Client(sessions, "parked", STATE), Client(sessions, "other", STATE)
    parked.open(prompt_of(1, 30), Settings(8))
    answer(parked, sessions, fake_target)
    other.open(prompt_of(2, 60), Settings(20))
    answer(other, sessions, fake_target)
    parked.say(parked.session.extend(parked.session.tree.frontier, [7, 8, 9], Settings(8)))
    answer(parked, sessions, fake_target)
    assert sessions.counters.recomputed_tokens == 0
    check_states(parked)
    both = covered(parked, "lsa", 0) + covered(parked, "lsa", 1)
    assert set(range(40)) <= set(both)
    assert len(set(both)) == len(both)


def test_a_new_stream_is_sent_what_the_old_one_may_not_have_carried(sessions: Sessions) -> None:
    fake_target = FakeTarget()
    older, newer = Client(sessions, "s", STATE), Client(sessions, "s", STATE)
    prompt = prompt_of(2, 20)
    older.open(prompt)
    for _ in range(3):
        one_pass(sessions, fake_target)
    lost = [message for message in older.inbox if isinstance(message, State)]
    assert lost
    newer.open(prompt)
    answer(newer, sessions, fake_target)
    check_states(newer)
    assert set(range(20)) <= set(covered(newer, "lsa"))


def test_state_that_cannot_be_made_leaves_the_answer_alone(sessions: Sessions) -> None:
    class FailingTarget(FakeTarget):
        def make(self, requests):  # type: ignore[no-untyped-def]
            return [None if payload[0] == 9 else payload for payload in super().make(requests) if payload]

    bad, good, fake_target = Client(sessions, "bad", STATE), Client(sessions, "good", STATE), FailingTarget()
    bad.open([9, 1])
    good.open([8, 1])
    answer(bad, sessions, fake_target)
    good.hear()
    answer(good, sessions, fake_target)
    assert bad.session.answer == decode([9, 1], SETTINGS.max_new_tokens, end=-1)
    assert good.session.answer == decode([8, 1], SETTINGS.max_new_tokens, end=-1)
    assert not bad.states
    assert good.states


def test_state_that_could_not_be_made_for_an_older_request_says_nothing_of_the_newer(sessions: Sessions) -> None:
    fake_target, prompt = FakeTarget(), prompt_of(2, 20)
    older, newer = Client(sessions, "s", STATE), Client(sessions, "s", replace(STATE, dtype="float16"))
    older.open(prompt)
    one_pass(sessions, fake_target)
    exports = sessions.claim_state()
    newer.open(prompt)
    sessions.send_state(exports, [None for _ in exports], 0.0)
    answer(newer, sessions, fake_target)
    check_states(newer)
    assert set(range(20)) <= set(covered(newer, "lsa"))


def test_a_session_that_leaves_while_its_state_is_made_is_forgotten(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    client.open(prompt_of(1, 10))
    one_pass(sessions, fake_target)
    exports = sessions.claim_state()
    assert exports
    sessions.leave(client, 0.0)
    sessions.send_state(exports, fake_target.make([export.request for export in exports]), 0.0)
    assert sessions.counters.state_frames == 0
    assert (len(sessions), sessions.free_slots) == (0, 2000)


def test_a_history_rewritten_while_its_state_is_made_voids_it(sessions: Sessions) -> None:
    client, fake_target = Client(sessions, "s", STATE), FakeTarget()
    client.open(prompt_of(1, 10))
    one_pass(sessions, fake_target)
    exports = sessions.claim_state()
    client.hear()
    client.say(client.session.cancel())
    client.hear()
    client.say(client.session.extend(3, [5, 6], SETTINGS))
    sessions.send_state(exports, fake_target.make([export.request for export in exports]), 0.0)
    assert sessions.counters.state_frames == 0
    answer(client, sessions, fake_target)
    check_states(client)


def test_a_step_is_short_and_everybody_gets_a_share() -> None:
    wide = replace(STATEFUL, state_kinds=lambda request: (StateKind("lsa", (200,)),))
    sessions, fake_target = Sessions(wide, ServingLimits(16, 4000), capacity=8000), FakeTarget()
    clients = [Client(sessions, str(index), STATE) for index in range(12)]
    for index, client in enumerate(clients):
        client.open(prompt_of(index, 300))
    served: list[str] = []
    for _ in range(6):
        batch = sessions.plan(0.0)
        exports = sessions.claim_state()
        if exports:
            largest = max(export.span.count for export in exports)
            assert len(exports) > 1
            assert sum(export.span.count for export in exports) < MAX_POSITIONS_PER_STEP + largest
        served += [export.owner.session.id for export in exports]
        sessions.send_state(exports, fake_target.make([export.request for export in exports]), 0.0)
        assert batch is not None
        sessions.complete(batch, fake_target.verify(batch.scheduled), 0.0)
        for client in clients:
            client.hear()
    rounds = [set(served[start : start + 12]) for start in range(0, len(served) - 11, 12)]
    assert len(rounds) > 1
    assert all(len(each) == 12 for each in rounds)


def test_a_server_without_such_drafts_refuses() -> None:
    sessions = Sessions(replace(TERMS, state_kinds=no_state), SERVING_LIMITS, 2000)
    client = Client(sessions, "s", STATE)
    client.open([1, 2])
    assert client.failed is not None
    assert client.failed.code is FailureCode.INVALID
    assert "no draft state for the draft model 'thoughts'" in client.failed.message
