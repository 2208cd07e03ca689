"""Eviction: a session that only waits for its client gives up its slots when others would be refused, waiting
sessions are served in order of age, and repeated computation is charged to its client."""

from dataclasses import replace
from typing import Any

import pytest

from common.protocol.messages import Ack, Extend, FailureCode, Settings, StateRequest
from common.protocol.terms import Terms
from server.sessions.quotas import Allowance, Quotas
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, answer, one_pass, prompt_of, renewed
from tests.server.fake_target import FakeTarget, decode

ENDLESS = replace(TERMS, end_tokens=frozenset())
ROUNDS = Settings(max_new_tokens=300, idle="lockstep")
LONG, SHORT = Settings(max_new_tokens=300), Settings(max_new_tokens=20)


class TimedSessions:
    """Clients and passes on one clock."""

    def __init__(
        self,
        capacity: int = 4000,
        quotas: dict[str, Allowance] | None = None,
        terms: Terms = ENDLESS,
        **bounds: Any,
    ):
        bounds = {"lease_seconds": 60.0} | bounds
        self.events: list[object] = []
        self.sessions = Sessions(
            terms, replace(SERVING_LIMITS, **bounds), capacity, Quotas(quotas or {}), on_event=self.events.append
        )
        self.fake_target, self.now = FakeTarget(), 0.0

    def asks(self, name: str, length: int, settings: Settings, client: str = "") -> Client:
        asking = Client(self.sessions, name, client=client)
        asking.say(asking.session.open(prompt_of(len(name), length), settings), self.now)
        return asking

    def leaves(self, client: Client) -> None:
        self.sessions.leave(client, self.now)
        client.session.lost()

    def comes_back(self, client: Client) -> Client:
        back = renewed(client)
        for message in back.session.reopen():
            back.say(message, self.now)
        return back

    def go_on(self, seconds: float, *clients: Client) -> None:
        end = self.now + seconds
        while self.now < end:
            one_pass(self.sessions, self.fake_target, self.now)
            self.now += 0.03
            for client in clients:
                client.hear(self.now)


def check_refused_alone(refused: Client, code: FailureCode, waiting: Client) -> None:
    """`waiting` would have had to make room."""
    assert refused.failed is not None
    assert refused.failed.code is code
    assert not waiting.ended


@pytest.mark.parametrize("bound", [{"max_running": 8}, {"max_sessions": 8}])
def test_places_are_not_held_by_those_who_wait_for_their_clients(bound: dict[str, int]) -> None:
    """Each of the eight sends one frame every 2.4 s."""
    timed = TimedSessions(**bound)
    holding = [timed.asks("h" * (number + 1), 3, ROUNDS) for number in range(8)]
    refused = 0
    for turn in range(40):
        timed.go_on(0.3)
        each = holding[turn % 8]
        each.hear()
        if not each.ended:
            each.say(each.session.exhausted(), timed.now)
        newcomer = timed.asks(f"a comer of number {turn}", 3, SHORT)
        refused += newcomer.failed is not None
        timed.go_on(0.9, newcomer)
        assert newcomer.failed is not None or newcomer.session.answer == decode(
            newcomer.session.tree.tokens[:3], 20, end=-1
        )
    assert refused == 0


def test_who_waits_for_no_longer_than_a_round_trip_keeps_its_place() -> None:
    timed = TimedSessions(max_running=1)
    rounds = timed.asks("rounds", 3, ROUNDS)
    for _ in range(10):
        timed.go_on(0.2, rounds)
        assert timed.asks("a newcomer", 3, SHORT).failed is not None
        rounds.say(rounds.session.exhausted(), timed.now)
    assert not rounds.ended


def test_who_made_room_comes_back_and_ends_as_alone() -> None:
    timed = TimedSessions(max_running=1)
    rounds = timed.asks("rounds", 3, replace(ROUNDS, max_new_tokens=10))
    timed.go_on(1.0, rounds)
    newcomer = timed.asks("a newcomer", 3, SHORT)
    assert (newcomer.failed, rounds.ended, rounds.failed) == (None, True, None)
    rounds.session.lost()
    back = Client(timed.sessions, "unused")
    back.session = rounds.session
    for message in back.session.reopen():
        back.say(message, timed.now)
    while not back.done:
        back.say(back.session.exhausted(), timed.now)
        timed.go_on(0.05, back, newcomer)
    assert back.session.answer == decode(prompt_of(len("rounds"), 3), 10, end=-1)
    assert timed.sessions.counters.recomputed_tokens == 0


def test_a_place_is_taken_from_nobody_where_that_would_not_help() -> None:
    timed = TimedSessions(capacity=100)
    waiting, busy = (
        timed.asks("waiting", 3, ROUNDS),
        timed.asks("busy", 60, Settings(max_new_tokens=300)),
    )
    timed.go_on(0.5)
    assert timed.asks("too long", 90, SHORT).failed is not None
    assert not waiting.ended
    assert not busy.ended


def test_who_may_have_no_more_sessions_takes_no_place_from_another() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(max_sessions=1)}, max_running=2)
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.asks("the only one", 3, LONG, client="bob")
    timed.go_on(1.0)
    newcomer = timed.asks("another", 3, SHORT, client="bob")
    check_refused_alone(newcomer, FailureCode.QUOTA, waiting)


def test_who_may_have_no_more_sessions_is_refused_though_its_own_wait() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(max_sessions=1)})
    waiting = timed.asks("waiting", 3, ROUNDS, client="bob")
    timed.go_on(1.0)
    newcomer = timed.asks("another", 3, SHORT, client="bob")
    check_refused_alone(newcomer, FailureCode.QUOTA, waiting)


def test_who_comes_back_to_all_its_sessions_takes_no_place_from_another() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(max_sessions=1)}, max_running=1)
    away = timed.asks("away", 3, LONG, client="bob")
    timed.leaves(away)
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.leaves(waiting)
    timed.asks("the only one", 3, LONG, client="bob")
    waiting = timed.comes_back(waiting)
    timed.go_on(1.0, waiting)
    back = timed.comes_back(away)
    check_refused_alone(back, FailureCode.QUOTA, waiting)


def test_who_comes_back_with_a_question_to_all_its_sessions_takes_no_place_from_another() -> None:
    timed = TimedSessions(quotas={"bob": Allowance(max_sessions=1)}, max_running=2)
    away = timed.asks("away", 3, SHORT, client="bob")
    timed.go_on(2.0, away)
    timed.leaves(away)
    timed.asks("the only one", 3, LONG, client="bob")
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.go_on(1.0, waiting)
    back = renewed(away)
    back.say(back.session.extend(back.session.tree.frontier, [7, 8], SHORT), timed.now)
    check_refused_alone(back, FailureCode.QUOTA, waiting)


def test_who_comes_back_with_another_question_takes_the_places_of_all_who_wait() -> None:
    """One for coming back, another for the question."""
    timed = TimedSessions(max_running=1)
    away = timed.asks("away", 3, LONG)
    timed.leaves(away)
    first = timed.asks("the first", 3, ROUNDS)
    timed.leaves(first)
    second = timed.asks("the second", 3, ROUNDS)
    first = timed.comes_back(first)
    timed.go_on(1.0, first, second)
    away.session.extend(away.session.tree.frontier, [7, 8], SHORT)
    assert timed.comes_back(away).failed is None
    assert (first.ended, second.ended) == (True, True)


@pytest.mark.parametrize("is_leased", [False, True])
def test_the_lease_of_who_made_room_for_one_that_came_back_begins_then(is_leased: bool) -> None:
    timed = TimedSessions(max_running=1)
    known = timed.asks("known", 3, SHORT)
    timed.go_on(2.0, known)
    if is_leased:
        timed.leaves(known)
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.go_on(1.0, waiting)
    known.session.extend(known.session.tree.frontier, [7, 8], SHORT)
    known.session.lost()
    assert timed.comes_back(known).failed is None
    assert waiting.ended
    for seconds, away in ((0.0, 1), (59.9, 1), (60.0, 0)):
        timed.sessions.plan(timed.now + seconds)
        assert timed.sessions.away == away


@pytest.mark.parametrize("is_leased", [False, True])
def test_who_comes_back_with_a_request_that_cannot_be_met_takes_no_place_from_another(is_leased: bool) -> None:
    timed = TimedSessions(max_running=1)
    known = timed.asks("known", 3, SHORT)
    timed.go_on(2.0, known)
    known.session.extend(known.session.tree.frontier, [7, 8], SHORT)
    known.session.wanted_state = StateRequest("unknown")
    if is_leased:
        timed.leaves(known)
    known.session.lost()
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.go_on(1.0, waiting)
    assert timed.sessions.away == is_leased
    back = timed.comes_back(known)
    check_refused_alone(back, FailureCode.INVALID, waiting)


def test_who_goes_on_with_what_is_no_question_takes_no_place_from_another() -> None:
    timed = TimedSessions(max_running=1)
    known = timed.asks("known", 3, SHORT)
    timed.go_on(2.0, known)
    waiting = timed.asks("waiting", 3, ROUNDS)
    timed.go_on(1.0, waiting)
    known.say(Extend(1, known.session.tree.frontier, (TERMS.vocab_size,), SHORT), timed.now)
    check_refused_alone(known, FailureCode.INVALID, waiting)


def test_a_long_prompt_is_let_in_by_its_age() -> None:
    """Short prompts keep coming, and there are always slots for them."""
    timed = TimedSessions(capacity=200)
    short = [timed.asks("s" * number, 20, SHORT) for number in range(10, 14)]
    refusals, passed = 0, 0
    long, comes = timed.asks("the long one", 150, SHORT), 0.0
    assert long.failed is not None
    for number in range(200):
        short = [each for each in short if not each.done]
        if len(short) < 4:
            newcomer = timed.asks("s" * (20 + number), 20, SHORT)
            short += [] if newcomer.failed else [newcomer]
            passed += newcomer.failed is None
        if timed.now >= comes:
            long = timed.asks("the long one", 150, SHORT)
            if long.failed is None:
                assert number, "nobody was before it"
                break
            refusals, comes = refusals + 1, timed.now + long.failed.retry_after
        timed.go_on(0.12, *short)
    assert long.failed is None
    assert refusals <= 8


def test_a_long_prompt_keeps_its_age_where_too_many_answers_are_made_meanwhile() -> None:
    timed = TimedSessions(capacity=200, max_running=2)
    timed.asks("here", 100, LONG)
    returning = timed.asks("returning", 10, LONG)
    timed.leaves(returning)
    for timed.now in (0.0, 1.0):
        assert "no room" in timed.asks("the long one", 150, SHORT).failed.message
    timed.now = 4.0
    returning = timed.comes_back(returning)
    assert "busy" in timed.asks("the long one", 150, SHORT).failed.message
    timed.leaves(returning)
    timed.now = 6.0
    assert timed.asks("a short one", 20, SHORT).failed is not None


def test_a_prompt_that_its_own_client_s_answer_keeps_out_holds_up_nobody_else() -> None:
    timed = TimedSessions(capacity=400)
    assert timed.asks("a tiny one", 3, LONG, client="eve").failed is None
    for second in range(200):
        timed.now = float(second)
        long = timed.asks("the long one", 399, SHORT, client="eve")
        assert long.failed is not None
        assert "no room" in long.failed.message
        short = timed.asks(f"short {second}", 20, SHORT, client="bob")
        assert short.failed is None, second
        timed.leaves(short)


def test_what_made_room_for_others_is_paid_for_when_it_is_computed_again() -> None:
    timed = TimedSessions(capacity=400, quotas={"thrifty": Allowance(tokens_per_minute=600)})
    thrifty = timed.asks("thrifty", 300, Settings(max_new_tokens=1), client="thrifty")
    answer(thrifty, timed.sessions, timed.fake_target)
    for turn in range(1, 9):
        # Another session's prompt takes its K/V.
        other = timed.asks("o" * turn, 350, Settings(max_new_tokens=1))
        answer(other, timed.sessions, timed.fake_target)
        timed.sessions.leave(other, timed.now)
        thrifty.say(thrifty.session.extend(thrifty.session.tree.frontier, [7], Settings(max_new_tokens=1)), timed.now)
        if thrifty.failed is not None:
            break
        answer(thrifty, timed.sessions, timed.fake_target)
    assert turn == 2
    assert thrifty.failed is not None
    assert "has used up its tokens" in thrifty.failed.message


def test_who_opens_its_answer_again_and_again_does_not_keep_its_place() -> None:
    timed = TimedSessions(max_sessions=1)
    holding = timed.asks("holding", 3, ROUNDS)
    timed.go_on(0.3, holding)
    for _ in range(20):
        holding.session.lost()
        holding = timed.comes_back(holding)
        timed.go_on(0.12, holding)
        assert holding.failed is None
    assert timed.asks("other", 3, SHORT, client="another").failed is None
    assert holding.ended


def test_one_late_acknowledgement_does_not_keep_a_place_for_minutes() -> None:
    timed = TimedSessions(max_sessions=1, terms=replace(ENDLESS, run_ahead=8), lease_seconds=600.0)
    holding = timed.asks("holding", 3, Settings(max_new_tokens=300, idle="patient"))
    timed.go_on(100.0)
    holding.say(Ack(0, timed.sessions._registry.entry_of(holding).session.tree.frontier), timed.now)
    timed.go_on(30.0)
    assert timed.asks("other", 3, SHORT, client="another").failed is None
    assert holding.ended


def test_who_comes_back_after_outages_without_a_token_between_them_has_time_to_go_on() -> None:
    """The last two together are longer than a lease."""
    timed = TimedSessions(lease_seconds=60.0)
    client = timed.asks("client", 3, ROUNDS)
    timed.go_on(0.3, client)
    for _ in range(3):
        timed.leaves(client)
        timed.go_on(50.0)
        client = timed.comes_back(client)
    timed.go_on(2.0, client)
    assert not client.ended
    timed.go_on(60.0, client)
    assert client.ended, "abandoned"
