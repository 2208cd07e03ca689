"""Answers whose sessions were dropped while they ran: to resume one is no request, and nothing else passes for that."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Open, Settings
from server.refusal import AdmissionRefusedError
from server.sessions.lost_answers import REMEMBERED_S
from server.sessions.quotas import Allowance
from tests.server.clients_of_sessions import Client, renewed
from tests.server.fake_target import decode
from tests.server.sessions.test_sessions_eviction_running import LONG, SHORT, TimedSessions

LEASE_S = 60.0


def used_up(requests: int = 1, **bounds: Any) -> tuple[TimedSessions, Client]:
    """Bob, with a running answer, has asked one of so many questions a minute, and hardly any time has passed."""
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=requests)}, lease_seconds=LEASE_S, **bounds)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(0.5, bob)
    assert bob.session.answer
    assert bob.failed is None
    return timed, bob


def evicted(timed: TimedSessions, client: Client) -> None:
    """On a server with one place: its lease ends for another session, which then leaves too."""
    timed.leaves(client)
    other = timed.asks("another one's id.", 3, SHORT)
    assert other.failed is None
    timed.go_on(0.5, other)
    timed.leaves(other)


def check_is_a_request(client: Client) -> None:
    assert client.failed is not None
    assert client.failed.code is FailureCode.QUOTA
    assert "has used up its requests, 1 a minute" in client.failed.message


def test_to_resume_an_answer_whose_session_was_evicted_is_no_request() -> None:
    timed, bob = used_up(max_sessions=1)
    evicted(timed, bob)
    back = timed.comes_back(bob)
    assert back.failed is None
    timed.go_on(0.1, back)
    prompt = back.session.tree.tokens[:3]
    assert back.session.answer == decode(prompt, len(back.session.answer), end=-1)


def test_nor_is_it_after_the_lease_has_ended() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(tokens_per_minute=60)}, lease_seconds=LEASE_S)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(6.0, bob)
    assert len(bob.session.answer) > 150, "much more than his allowance"
    timed.leaves(bob)
    timed.now += LEASE_S
    assert timed.sessions.plan(timed.now) is None
    assert timed.sessions.away == 0
    back = timed.comes_back(bob)
    assert back.failed is None


def test_nor_is_it_where_there_are_no_leases() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=1)}, lease_seconds=0.0)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(0.5, bob)
    assert bob.session.answer
    timed.leaves(bob)
    assert timed.sessions.away == 0
    assert timed.comes_back(bob).failed is None


def test_nor_is_it_where_the_cache_was_full() -> None:
    timed = TimedSessions(capacity=120, quotas={"bob": Allowance(requests_per_minute=1)}, lease_seconds=LEASE_S)
    first = timed.asks("the first", 3, LONG)
    timed.go_on(0.1, first)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    while not bob.done:
        timed.go_on(0.1, first, bob)
    assert bob.failed is not None
    assert bob.failed.code is FailureCode.OVERLOADED
    timed.leaves(first)
    bob.session.lost()
    assert timed.comes_back(bob).failed is None


def test_nor_is_it_where_the_client_did_not_read_in_time() -> None:
    timed, bob = used_up()
    bob.end()
    timed.go_on(0.1)
    assert len(timed.sessions) == timed.sessions.away == 0
    bob.session.lost()
    assert timed.comes_back(bob).failed is None


def test_its_constraint_may_be_compiled_again() -> None:
    timed, bob = used_up(max_sessions=1)
    evicted(timed, bob)
    (opened,) = bob.session.reopen()
    with timed.sessions.preparing(renewed(bob), opened, timed.now) as is_of_use:
        assert is_of_use
    with (
        pytest.raises(AdmissionRefusedError, match="has used up its requests"),
        timed.sessions.preparing(renewed(bob), CLAIMS["another prompt"](opened), timed.now),
    ):
        pass


def test_nor_is_it_a_request_where_that_was_in_vain() -> None:
    timed, bob = used_up(requests=2, max_sessions=1)
    evicted(timed, bob)
    (opened,) = bob.session.reopen()
    with pytest.raises(PeerError, match="gone"), timed.sessions.preparing(renewed(bob), opened, timed.now):
        raise PeerError("it is gone")
    assert timed.asks("another", 3, SHORT, client="bob").failed is None


def test_what_is_computed_again_is_owed() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(tokens_per_minute=120)}, lease_seconds=LEASE_S, max_sessions=1)
    bob = timed.asks("bob's session id", 100, LONG, client="bob")
    timed.go_on(0.5, bob)
    evicted(timed, bob)
    back = timed.comes_back(bob)
    timed.go_on(0.1, back)
    back.say(back.session.cancel(), timed.now)
    back.hear()
    back.say(back.session.extend(back.session.tree.frontier, [7], SHORT), timed.now)
    assert back.failed is not None
    assert "has used up its tokens" in back.failed.message
    assert back.failed.retry_after > 40, "its prompt was paid for twice"


CLAIMS: dict[str, Callable[[Open], Open]] = {
    "another prompt": lambda opened: replace(opened, tokens=(opened.tokens[0] + 1, *opened.tokens[1:])),
    "another answer": lambda opened: replace(opened, tokens=(*opened.tokens[:-1], opened.tokens[-1] + 1)),
    "kept text in place of its answer": lambda opened: replace(
        opened, tokens=(*opened.tokens[: opened.prompt_length], *[1] * 40)
    ),
    "none of its answer": lambda opened: replace(opened, tokens=opened.tokens[: opened.prompt_length]),
    "a longer answer": lambda opened: replace(opened, settings=Settings(max_new_tokens=301)),
    "a shorter prompt": lambda opened: replace(opened, prompt_length=2),
    "another turn": lambda opened: replace(opened, turn=opened.turn + 1),
    "another session": lambda opened: replace(opened, session="a session called something else"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_who_resumes_what_was_not_lost_asks_anew(claim: str) -> None:
    timed, bob = used_up(max_sessions=1)
    evicted(timed, bob)
    (opened,) = bob.session.reopen()
    assert isinstance(opened, Open)
    back = renewed(bob)
    back.say(CLAIMS[claim](opened), timed.now)
    check_is_a_request(back)


def test_another_client_has_lost_nothing() -> None:
    timed = TimedSessions(
        quotas={name: Allowance(requests_per_minute=1) for name in ("bob", "eve")},
        lease_seconds=LEASE_S,
        max_sessions=1,
    )
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    timed.go_on(0.5, bob)
    evicted(timed, bob)
    eve = timed.asks("eve's session id", 3, SHORT, client="eve")
    timed.go_on(2.0, eve)
    assert eve.session.finished is not None
    timed.leaves(eve)
    back = renewed(bob)
    back.client = "eve"
    for message in bob.session.reopen():
        back.say(message, timed.now)
    assert back.failed is not None
    assert "'eve' has used up its requests" in back.failed.message


def test_an_answer_that_does_not_grow_is_resumed_once() -> None:
    """Otherwise a client would have its prompt computed again and again for one request."""
    timed, bob = used_up(max_sessions=1)
    for is_first in (True, False):
        evicted(timed, bob)
        bob = timed.comes_back(bob)
        if not is_first:
            check_is_a_request(bob)
            return
        assert bob.failed is None
        timed.go_on(0.1)  # and bob does not listen


def test_an_answer_that_grows_is_resumed_as_often_as_its_session_is_dropped() -> None:
    timed, bob = used_up(max_sessions=1)
    for _ in range(5):
        evicted(timed, bob)
        bob = timed.comes_back(bob)
        assert bob.failed is None
        timed.go_on(0.1, bob)


def test_an_answer_without_a_token_has_not_begun() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=1)}, lease_seconds=LEASE_S, max_sessions=1)
    bob = timed.asks("bob's session id", 3, LONG, client="bob")
    evicted(timed, bob)
    check_is_a_request(timed.comes_back(bob))


def test_an_answer_that_has_ended_is_asked_anew() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(requests_per_minute=1)}, lease_seconds=LEASE_S, max_sessions=1)
    bob = timed.asks("bob's session id", 3, SHORT, client="bob")
    timed.go_on(0.1, bob)
    assert 0 < len(bob.session.answer) < 20
    timed.go_on(2.0)  # and bob does not hear the end
    evicted(timed, bob)
    check_is_a_request(timed.comes_back(bob))


def test_an_answer_is_forgotten_in_time() -> None:
    timed, bob = used_up(max_sessions=1)
    left, remembered_s = timed.now, REMEMBERED_S + LEASE_S
    evicted(timed, bob)
    lost = timed.sessions._registry.lost_answers
    (opened,) = bob.session.reopen()
    known = [
        lost.is_resumed(("bob", opened.session), opened, now)
        for now in (left, left + remembered_s - 1, left + remembered_s)
    ]
    assert known == [True, True, False]


def test_as_many_are_remembered_as_there_are_places() -> None:
    timed = TimedSessions(lease_seconds=LEASE_S, max_sessions=4)
    lost = timed.sessions._registry.lost_answers
    clients = []
    for number in range(12):
        client = timed.asks(f"client {'x' * number}", 3, LONG)
        timed.go_on(0.1, client)
        timed.leaves(client)
        clients.append(client)
        assert len(lost) <= 4
    timed.now += LEASE_S
    timed.sessions.plan(timed.now)
    assert (timed.sessions.away, len(lost)) == (0, 4)
    opens = [client.session.reopen()[0] for client in clients]
    known = [lost.is_resumed(("", opened.session), opened, timed.now) for opened in opens]
    assert known == [False] * 8 + [True] * 4, "the oldest are forgotten first"
