"""Requests whose constraint is compiled before they are received: what they are charged, and how old they stay."""

from dataclasses import replace
from typing import Any

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import PROTOCOL_VERSION, Constraint, Extend, FailureCode, Open, Settings
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.quotas import Allowance
from tests.server.clients_of_sessions import TERMS, Client, prompt_of, renewed
from tests.server.sessions.test_sessions_eviction_running import ENDLESS, LONG, TimedSessions

SHORT = Settings(max_new_tokens=2)
CONSTRAINING = replace(ENDLESS, constrain=lambda _: None)


def constrained_by(pattern: str) -> Settings:
    return Settings(5, constraint=Constraint("regex", pattern))


def opening(name: str, length: int = 3) -> Open:
    tokens = tuple(prompt_of(len(name), length))
    return Open(PROTOCOL_VERSION, TERMS.fingerprint, f"a session called {name}", 0, tokens, length, constrained_by("a"))


def constrained(client: Client) -> Extend:
    """The question after its answer."""
    return Extend(1, client.session.tree.frontier, (7,), constrained_by("a"))


def test_a_question_that_is_refused_before_its_constraint_is_compiled_is_leased_from_then_on() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=1)}, lease_seconds=60.0)
    bob = timed.asks("bob", 3, SHORT, client="bob")
    timed.go_on(1.0, bob)
    timed.now = 50.0
    with (
        pytest.raises(AdmissionRefusedError) as refused,
        timed.sessions.preparing(bob, constrained(bob), timed.now),
    ):
        pass
    timed.sessions.fail(bob, refused.value)
    assert (timed.sessions.away, timed.sessions.next_due()) == (1, 110.0)
    assert timed.sessions.counters.refused == {RefusalReason.QUOTA_REQUESTS: 1}


def test_a_request_that_is_refused_after_its_constraint_was_compiled_counts() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=1)}, terms=CONSTRAINING, max_running=1)
    bob, opened = Client(timed.sessions, "bob", client="bob"), opening("bob")

    def prepare_and_receive() -> None:
        with timed.sessions.preparing(bob, opened, timed.now):
            assert timed.asks("alice's", 3, LONG).failed is None
            timed.sessions.receive(bob, opened, timed.now)

    with pytest.raises(AdmissionRefusedError, match="busy"):
        prepare_and_receive()
    asked = timed.asks("another", 3, SHORT, client="bob")
    assert asked.failed is not None
    assert asked.failed.code is FailureCode.QUOTA


def test_an_answer_that_goes_on_is_no_request_even_where_its_constraint_is_compiled_in_vain() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=2)}, terms=CONSTRAINING)
    bob = Client(timed.sessions, "bob", client="bob")
    bob.say(opening("bob"), timed.now)
    timed.sessions.leave(bob, timed.now)
    with pytest.raises(PeerError, match="gone"), timed.sessions.preparing(renewed(bob), opening("bob"), timed.now):
        raise PeerError("it is gone")
    assert timed.asks("another", 3, SHORT, client="bob").failed is None


def test_a_long_prompt_keeps_its_age_while_its_constraint_is_compiled() -> None:
    timed = TimedSessions(capacity=200, terms=CONSTRAINING, lease_seconds=0.0)
    running = timed.asks("running", 100, LONG)
    long, opened = Client(timed.sessions, "long"), opening("long", 150)
    for timed.now in (0.0, 1.0):
        with pytest.raises(AdmissionRefusedError, match="no room"):
            timed.sessions.preparing(long, opened, timed.now).__enter__()
    timed.leaves(running)
    with timed.sessions.preparing(long, opened, timed.now):
        timed.now = 8.0
        assert timed.asks("a short one", 60, SHORT).failed is not None
        timed.sessions.receive(long, opened, timed.now)


def test_a_request_whose_stream_ends_while_its_constraint_is_compiled_counts() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=2)})
    bob = timed.asks("bob", 3, SHORT, client="bob")
    timed.go_on(1.0, bob)
    resumed = Open(PROTOCOL_VERSION, TERMS.fingerprint, bob.session.id, 0, tuple(bob.session.tree.tokens), 3, SHORT)
    with timed.sessions.preparing(bob, constrained(bob), timed.now) as is_of_use:
        assert is_of_use
        renewed(bob).say(resumed, timed.now)
        assert bob.ended
    asked = timed.asks("another", 3, SHORT, client="bob")
    assert asked.failed is not None
    assert asked.failed.code is FailureCode.QUOTA


def test_nor_while_that_of_an_open_which_begins_another_answer_is() -> None:
    timed = TimedSessions(terms=CONSTRAINING, max_sessions=1)
    bob = timed.asks("bob", 3, SHORT, client="bob")
    timed.go_on(1.0, bob)
    anew = replace(opening("bob"), session=bob.session.id)
    with timed.sessions.preparing(renewed(bob), anew, timed.now):
        assert timed.asks("another", 3, SHORT, client="bob").failed is not None
    assert not bob.ended


@pytest.mark.parametrize("allowed", [{"max_sessions": 1}, {"quotas": {"bob": Allowance(max_sessions=1)}}])
def test_a_session_does_not_go_for_another_one_while_its_constraint_is_compiled(allowed: dict[str, Any]) -> None:
    timed = TimedSessions(terms=CONSTRAINING, **allowed)
    bob = timed.asks("bob", 3, SHORT, client="bob")
    timed.go_on(1.0, bob)
    question = constrained(bob)
    with timed.sessions.preparing(bob, question, timed.now):
        refused = timed.asks("another", 3, SHORT, client="bob")
        timed.sessions.receive(bob, question, timed.now)
    assert refused.failed is not None
    assert not bob.ended
    timed.go_on(1.0)
    assert timed.asks("a third", 3, SHORT, client="bob").failed is None
    assert bob.ended
