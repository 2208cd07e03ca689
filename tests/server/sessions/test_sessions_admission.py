"""Admission: what does not fit is refused at once with a time to retry, and the sessions that were admitted lose
nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import PROTOCOL_VERSION, FailureCode, Open, Settings
from server.refusal import RefusalReason
from server.sessions.quotas import Allowance, Quotas
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, answer, one_pass, prompt_of
from tests.server.fake_target import FakeTarget, decode
from tests.server.sessions.test_sessions_eviction_running import TimedSessions

ENDLESS = replace(TERMS, end_tokens=frozenset())
LONG = Settings(max_new_tokens=300)
SHORT = Settings(max_new_tokens=2)


def new_sessions(quotas: dict[str, Allowance] | None = None, capacity: int = 2000, **bounds: Any) -> Sessions:
    return Sessions(ENDLESS, replace(SERVING_LIMITS, **bounds), capacity, Quotas(quotas or {}))


def asking(sessions: Sessions, name: str, settings: Settings = LONG, client: str = "", length: int = 3) -> Client:
    asked = Client(sessions, name, client=client)
    asked.open(prompt_of(len(name), length), settings)
    return asked


def again(client: Client, settings: Settings = LONG) -> None:
    """Asks another question in the same session."""
    client.say(client.session.extend(client.session.tree.frontier, [7, 8], settings))


def lose(client: Client) -> None:
    client.inbox.clear()
    client.sessions.leave(client, 0.0)


def returned(client: Client) -> Client:
    """The same client on a new stream."""
    fresh = Client(client.sessions, "unused", client=client.client)
    fresh.session = client.session
    fresh.session.lost()
    for message in fresh.session.reopen():
        fresh.say(message)
    return fresh


def reasons(sessions: Sessions) -> dict[str, int]:
    return dict(sessions.counters.refused)


def test_who_is_refused_for_the_cache_moves_those_behind_back_by_one_step() -> None:
    """As who is refused for anything else."""
    sessions = new_sessions(capacity=200)
    for name in ("one", "two", "three", "four"):
        assert asking(sessions, name, length=30).failed is None
    waits = []
    for name in ("a fifth", "and a sixth"):
        refused = asking(sessions, name, length=150).failed
        assert refused is not None
        assert "has no room for a prompt of 150 tokens; try again later or shorten it" in refused.message
        waits.append(refused.retry_after)
    assert waits == pytest.approx([2.0 / 4, 2 * 2.0 / 4]), "an answer of unknown length takes 2 s, and there are four"


def test_no_more_answers_are_made_at_a_time_than_may_be_and_the_next_is_told_when_to_come() -> None:
    sessions, fake_target = new_sessions(max_running=2), FakeTarget()
    first, second, third = (asking(sessions, name) for name in ("one", "two", "three"))
    assert third.failed is not None
    assert third.failed.code is FailureCode.OVERLOADED
    assert "busy with 2 answers" in third.failed.message
    assert 0 < third.failed.retry_after <= 2.0
    assert third.ended
    assert reasons(sessions) == {RefusalReason.RUNNING: 1}
    first.hear()
    first.say(first.session.cancel())
    assert asking(sessions, "fourth").failed is None
    assert one_pass(sessions, fake_target) == 2
    assert (first.failed, second.failed) == (None, None)


def test_unless_told_otherwise_as_many_answer_as_decode_in_every_pass() -> None:
    sessions = new_sessions(pass_tokens=8)
    clients = [asking(sessions, "s" * number) for number in range(1, 8)]
    assert [client.failed is None for client in clients] == [True] * 6 + [False]


def test_a_question_that_cannot_be_answered_now_costs_its_session_nothing() -> None:
    sessions, fake_target = new_sessions(max_running=1, lease_seconds=60.0), FakeTarget()
    asked = asking(sessions, "asked", SHORT, length=30)
    answer(asked, sessions, fake_target)
    other = asking(sessions, "other")
    again(asked)
    assert asked.failed is not None
    assert asked.ended
    assert (len(sessions), sessions.away) == (1, 1)
    other.hear()
    other.say(other.session.cancel())
    packed = sessions.counters.packed_tokens
    back = returned(asked)
    prompt = list(back.session.tree.tokens)
    one_pass(sessions, fake_target)
    back.hear()
    assert back.session.answer == decode(prompt, 1, end=-1)
    assert sessions.counters.packed_tokens - packed <= 4


def test_an_answer_that_was_begun_goes_on_although_another_took_its_place_meanwhile() -> None:
    sessions, fake_target = new_sessions(max_running=1, lease_seconds=60.0), FakeTarget()
    begun = asking(sessions, "begun")
    one_pass(sessions, fake_target)
    lose(begun)
    assert asking(sessions, "other").failed is None
    assert returned(begun).failed is None
    assert asking(sessions, "third").failed is not None


def test_a_prompt_is_let_in_only_where_the_answers_that_are_made_will_leave_room_for_its_own() -> None:
    """Estimated from the length of answers so far, and never more than the client asked for."""
    sessions, fake_target = new_sessions(capacity=100), FakeTarget()
    answer(asking(sessions, "measured", Settings(max_new_tokens=30), length=3), sessions, fake_target)
    running = asking(sessions, "running", length=40)
    assert running.failed is None
    assert asking(sessions, "fits", Settings(max_new_tokens=10), length=20).failed is None
    refused = asking(sessions, "long", length=5)
    assert refused.failed is not None
    assert "no room for a prompt of 5 tokens" in refused.failed.message
    assert refused.failed.retry_after > 0
    assert reasons(sessions) == {RefusalReason.CACHE: 1}


def test_whoever_is_alone_is_let_in_though_an_answer_of_the_usual_length_would_not_fit() -> None:
    sessions, fake_target = new_sessions(capacity=100), FakeTarget()
    answer(asking(sessions, "measured", Settings(max_new_tokens=30), length=3), sessions, fake_target)
    assert asking(sessions, "alone", length=90).failed is None


def test_whoever_has_no_question_makes_room_for_another_session() -> None:
    """It resumes with its next question, as after any broken stream."""
    sessions, fake_target = new_sessions(max_sessions=2), FakeTarget()
    idle, busy = asking(sessions, "idle", SHORT), asking(sessions, "busy")
    answer(idle, sessions, fake_target)
    assert asking(sessions, "comer").failed is None
    assert (idle.ended, idle.failed, busy.ended) == (True, None, False)
    refused = asking(sessions, "another")
    assert refused.failed is not None
    assert "no room for another session" in refused.failed.message
    assert reasons(sessions) == {RefusalReason.SESSIONS: 1}


def test_of_those_without_a_question_the_one_that_has_had_none_for_longest_goes() -> None:
    sessions, fake_target = new_sessions(max_sessions=2), FakeTarget()
    early, late = (asking(sessions, name, SHORT) for name in ("a", "bb"))
    for now, client in enumerate((late, early)):
        while not client.done:
            one_pass(sessions, fake_target, float(now))
            client.hear()
    again(late, Settings(max_new_tokens=1))
    one_pass(sessions, fake_target, 9.0)
    late.hear()
    assert asking(sessions, "ccc").failed is None
    assert (early.ended, late.ended) == (True, False)


QUOTAS = {
    "few": Allowance(max_sessions=2),
    "seldom": Allowance(requests_per_minute=2),
    "short": Allowance(tokens_per_minute=40),
}


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ("few", RefusalReason.QUOTA_SESSIONS),
        ("seldom", RefusalReason.QUOTA_REQUESTS),
        ("short", RefusalReason.QUOTA_TOKENS),
    ],
)
def test_a_client_that_has_used_up_its_share_is_told_and_others_go_on(client: str, reason: RefusalReason) -> None:
    sessions = new_sessions(QUOTAS)
    clients = [asking(sessions, name, client=client, length=20) for name in ("a", "bb")]
    assert [each.failed for each in clients] == [None, None]
    third, other = asking(sessions, "ccc", client=client), asking(sessions, "dddd", client="another")
    assert third.failed is not None
    assert third.failed.code is FailureCode.QUOTA
    assert third.failed.message.startswith(f"'{client}' has ")
    assert third.failed.retry_after > 0
    assert other.failed is None
    assert reasons(sessions) == {reason: 1}


def test_what_is_committed_is_used_up_too_and_an_answer_that_is_made_goes_on_to_its_end() -> None:
    sessions, fake_target = new_sessions(QUOTAS), FakeTarget()
    client = asking(sessions, "a", Settings(max_new_tokens=100), client="short")
    answer(client, sessions, fake_target)
    assert len(client.session.answer) == 100
    again(client)
    assert client.failed is not None
    assert client.failed.retry_after == pytest.approx((103 - 40 + 1) * 60 / 40)


def test_to_come_back_is_no_request() -> None:
    sessions, fake_target = new_sessions(QUOTAS, lease_seconds=60.0), FakeTarget()
    client = asking(sessions, "a", client="seldom")
    for _ in range(5):
        one_pass(sessions, fake_target)
        lose(client)
        client = returned(client)
        assert client.failed is None
    client.hear()
    client.say(client.session.cancel())
    client.hear()
    again(client)
    assert client.failed is None
    client.hear()
    client.say(client.session.cancel())
    client.hear()
    again(client)
    assert client.failed is not None


def test_a_client_with_all_its_sessions_gives_up_one_without_a_question() -> None:
    sessions, fake_target = new_sessions(QUOTAS), FakeTarget()
    first, other = asking(sessions, "a", SHORT, client="few"), asking(sessions, "bb", SHORT)
    for client in (first, other):
        answer(client, sessions, fake_target)
    assert asking(sessions, "ccc", client="few").failed is None
    assert asking(sessions, "dddd", client="few").failed is None
    assert (first.ended, other.ended) == (True, False)
    assert asking(sessions, "eeeee", client="few").failed is not None


def test_a_client_that_says_nothing_for_as_long_as_a_lease_lasts_is_as_good_as_gone() -> None:
    sessions, fake_target = (
        Sessions(replace(ENDLESS, run_ahead=4), replace(SERVING_LIMITS, lease_seconds=60.0), 2000),
        FakeTarget(),
    )
    silent = asking(sessions, "silent")
    now = 0.0
    while one_pass(sessions, fake_target, now):
        now += 1.0
    last = now - 1.0
    assert sessions.next_due() == last + 60.0
    assert one_pass(sessions, fake_target, last + 59.0) == 0
    assert not silent.ended
    assert one_pass(sessions, fake_target, last + 60.0) == 0
    assert silent.ended
    assert (len(sessions), sessions.away) == (0, 1)
    back = returned(silent)
    one_pass(sessions, fake_target, last + 61.0)
    back.hear()
    assert len(back.session.answer) >= 4


def test_who_comes_back_and_is_turned_away_takes_no_place_from_another() -> None:
    quotas = {"bob": Allowance(max_sessions=1, requests_per_minute=2)}
    sessions, fake_target = new_sessions(quotas, lease_seconds=60.0), FakeTarget()
    away = asking(sessions, "away", SHORT, client="bob")
    answer(away, sessions, fake_target)
    lose(away)
    idle = asking(sessions, "idle", SHORT, client="bob")
    answer(idle, sessions, fake_target)
    away.session.lost()
    fresh = Client(sessions, "unused", client="bob")
    fresh.say(away.session.extend(away.session.tree.frontier, [7, 8], SHORT))
    assert fresh.failed is not None
    assert fresh.failed.code is FailureCode.QUOTA
    assert not idle.ended
    assert (len(sessions), sessions.away) == (1, 1)


def test_sessions_on_other_replicas_count_and_one_here_makes_way_for_another() -> None:
    quotas = Quotas({"bob": Allowance(max_sessions=2)})
    sessions = Sessions(ENDLESS, SERVING_LIMITS, 2000, quotas)
    quotas.agree({}, {"bob": 1}, 0.0)
    first = asking(sessions, "first", SHORT, client="bob")
    assert first.failed is None
    refused = asking(sessions, "second", SHORT, client="bob")
    assert refused.failed is not None
    assert refused.failed.message == "'bob' has all the 2 sessions that it may have at a time; end one of them"
    answer(first, sessions, FakeTarget())
    assert asking(sessions, "third", SHORT, client="bob").failed is None
    assert first.ended


def test_a_quota_of_one_session_is_told_as_one() -> None:
    sessions = Sessions(ENDLESS, SERVING_LIMITS, 2000, Quotas({"bob": Allowance(max_sessions=1)}))
    assert asking(sessions, "first", SHORT, client="bob").failed is None
    refused = asking(sessions, "second", SHORT, client="bob")
    assert refused.failed is not None
    assert refused.failed.message == "'bob' has the one session that it may have at a time; end it"


def test_a_long_prompt_keeps_its_age_where_there_is_no_room_for_its_session() -> None:
    timed = TimedSessions(capacity=200, max_sessions=2, lease_seconds=0.0)
    first, second = timed.asks("first", 10, LONG), timed.asks("second", 100, LONG)
    for timed.now in (0.0, 1.0):
        assert "no room for a prompt" in timed.asks("the long one", 150, SHORT).failed.message
    timed.leaves(second)
    timed.now = 2.0
    assert timed.asks("third", 10, LONG).failed is None
    assert "no room for another session" in timed.asks("the long one", 150, SHORT).failed.message
    timed.leaves(first)
    timed.now = 3.0
    assert timed.asks("a short one", 50, SHORT).failed is not None
    assert timed.asks("the long one", 150, SHORT).failed is None


def whole_answer() -> Open:
    """Of a client that has all that it asked for, and does not know it."""
    return Open(PROTOCOL_VERSION, TERMS.fingerprint, "a whole answer's session", 0, (7, 8, 9), 2, Settings(1))


def test_what_is_no_whole_answer_says_nothing_of_how_long_answers_are() -> None:
    sessions, fake_target = new_sessions(capacity=100), FakeTarget()
    answer(asking(sessions, "measured", Settings(max_new_tokens=30), length=3), sessions, fake_target)
    for number in range(1, 31):
        stopped = asking(sessions, "s" * number, length=3)
        one_pass(sessions, fake_target)
        stopped.hear()
        stopped.say(stopped.session.cancel())
        whole = Client(sessions, "whole")
        whole.say(whole_answer())
        for client in (stopped, whole, asking(sessions, "n" * number, Settings(max_new_tokens=0))):
            assert client.failed is None
            lose(client)
    assert sessions.counters.finished == {"length": 31, "cancelled": 30}
    assert asking(sessions, "running", length=40).failed is None
    assert asking(sessions, "fits", Settings(max_new_tokens=10), length=20).failed is None
    assert asking(sessions, "long", length=5).failed is not None


def cancels(timed: TimedSessions, client: Client) -> None:
    client.say(client.session.cancel(), timed.now)
    timed.go_on(0.1, client)


def goes_away_for_good(timed: TimedSessions, client: Client) -> None:
    timed.leaves(client)
    timed.now += 61.0
    timed.go_on(0.1)


def breaks_the_protocol(timed: TimedSessions, client: Client) -> None:
    timed.sessions.fail(client, PeerError("the client breaks the protocol"))


def asks_something_else_after_a_break(timed: TimedSessions, client: Client) -> None:
    timed.leaves(client)
    client.session.extend(20, [7], SHORT)
    back = timed.comes_back(client)
    assert back.failed is None
    back.hear()
    cancels(timed, back)


@pytest.mark.parametrize(
    "cut_off", [cancels, goes_away_for_good, breaks_the_protocol, asks_something_else_after_a_break]
)
def test_answers_that_are_cut_off_still_have_room_kept_for_others_like_them(
    cut_off: Callable[[TimedSessions, Client], None],
) -> None:
    timed = TimedSessions(capacity=300)
    stopped = timed.asks("stopped", 20, LONG)
    while len(stopped.session.answer) < 100:
        timed.go_on(0.3, stopped)
    cut_off(timed, stopped)
    admitted = [each.failed is None for each in (timed.asks("r" * number, 40, LONG) for number in range(1, 5))]
    assert admitted == [True, True, False, False]
