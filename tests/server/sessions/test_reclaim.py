"""Whose K/V go where slots are wanted, with prefixes that sessions share: the cache first, and a full pool ends no
engine."""

import math
from dataclasses import replace

import pytest

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Settings
from server.passes.batch import PlannedPass
from server.sessions import shared_prefixes
from server.sessions.entry import SessionEntry
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import (
    LEASE,
    SERVING_LIMITS,
    TERMS,
    Client,
    answer,
    leasing,
    lose,
    one_pass,
    prompt_of,
)
from tests.server.fake_target import FakeTarget, decode
from tests.server.slot_account import check_slots

ENDLESS = replace(TERMS, end_tokens=frozenset())
TRUNK = prompt_of(0, 80)
ONE_TOKEN = Settings(max_new_tokens=1)


def entry_of(client: Client) -> SessionEntry:
    entry = client.sessions._registry.entry_of(client)
    assert entry is not None
    return entry


def asked(sessions: Sessions, name: str, prompt: list[int], settings: Settings = ONE_TOKEN) -> Client:
    client = Client(sessions, name)
    client.open(prompt, settings)
    return client


def test_a_full_cache_is_evicted_before_the_tokens_of_a_pass_are_counted() -> None:
    """They are none where no slot is free. Nobody is parked or fails for it."""
    sessions, fake_target = Sessions(ENDLESS, SERVING_LIMITS, 212), FakeTarget()
    idle = asked(sessions, "idle", prompt_of(2, 20))
    answer(idle, sessions, fake_target)
    gone = asked(sessions, "gone", prompt_of(1, 192))
    answer(gone, sessions, fake_target)
    lose(gone)
    assert (sessions._pool.free, sessions._prefixes.cache.evictable) == (0, 192)
    newcomer = asked(sessions, "newcomer", prompt_of(3, 90))
    answer(newcomer, sessions, fake_target)
    assert newcomer.session.answer == decode(prompt_of(3, 90), 1, end=-1)
    assert len(entry_of(idle).sequence) == 20
    assert sessions.counters.preempted == 0
    check_slots(sessions, fake_target)


def test_sessions_that_share_all_their_slots_are_failed_until_one_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The K/V of who fails first belong to the other too. Nobody may plan for ever."""
    monkeypatch.setattr(shared_prefixes, "LEAST_RUN", 1)
    sessions, fake_target = Sessions(ENDLESS, SERVING_LIMITS, 40), FakeTarget()
    clients = [asked(sessions, str(index), [3, 5], Settings(max_new_tokens=60)) for index in range(2)]
    while one_pass(sessions, fake_target):
        for client in clients:
            client.hear()
        check_slots(sessions, fake_target)
    assert sessions.next_due() == math.inf
    assert sessions.counters.preempted == 2
    for client in clients:
        assert client.failed is not None
        assert client.session.answer == decode([3, 5], 60, end=-1)[: len(client.session.answer)]


def test_an_answer_whose_slots_all_belong_to_another_too_is_not_failed_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_prefixes, "LEAST_RUN", 1)
    sessions, fake_target = Sessions(ENDLESS, SERVING_LIMITS, 40), FakeTarget()
    alone = asked(sessions, "alone", [4, 4], Settings(max_new_tokens=30))
    twins = [asked(sessions, str(index), [3], Settings(max_new_tokens=30)) for index in range(2)]
    for _ in range(5):
        one_pass(sessions, fake_target)
    rest = sessions._pool.take(sessions._pool.free)
    one_pass(sessions, fake_target)
    check_slots(sessions, fake_target, in_pass=rest)
    assert [client.failed is not None for client in (alone, *twins)] == [True, False, False]


def test_a_lease_whose_slots_a_connected_session_uses_is_not_dropped_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_prefixes, "LEAST_RUN", 1)
    sessions, fake_target = Sessions(ENDLESS, replace(SERVING_LIMITS, lease_seconds=LEASE), 160), FakeTarget()
    asked(sessions, "here", TRUNK, Settings(max_new_tokens=60))
    shares_all = asked(sessions, "shares all", TRUNK, Settings(max_new_tokens=60))
    for _ in range(4):
        one_pass(sessions, fake_target)
    lose(shares_all)
    one_pass(sessions, fake_target)
    has_own = asked(sessions, "has own", prompt_of(1, 60))
    while not has_own.done:
        one_pass(sessions, fake_target)
        has_own.hear()
    lose(has_own)
    asked(sessions, "newcomer", prompt_of(2, 40))
    one_pass(sessions, fake_target)
    assert [entry.session.id for entry in sessions._registry.leases.entries] == [shares_all.session.id]
    check_slots(sessions, fake_target)


def fault_while_planned(entry: SessionEntry) -> None:
    def raising(budget: int) -> None:
        raise ZeroDivisionError("of one session")

    entry.session.plan = raising  # type: ignore[assignment, method-assign]


def test_a_fault_of_a_session_that_is_owed_a_pass_ends_it_alone() -> None:
    sessions, fake_target = leasing(), FakeTarget()
    first = asked(sessions, "first", TRUNK)
    answer(first, sessions, fake_target)
    owed = asked(sessions, "owed", [*TRUNK, 7, 8])
    entry = entry_of(owed)
    lose(owed)
    fault_while_planned(entry)
    assert sessions.plan(0.0) is None
    assert (sessions.away, len(sessions)) == (0, 1)
    assert sessions.next_due() > 0.0
    check_slots(sessions, fake_target)
    second = asked(sessions, "second", [*TRUNK, 7, 9])
    answer(second, sessions, fake_target)
    assert second.session.answer == decode([*TRUNK, 7, 9], 1)


@pytest.mark.parametrize(("prompt", "free"), [([*TRUNK, 7, 8], 10), (prompt_of(5, 30), 0)])
def test_a_session_that_is_owed_a_pass_evicts_cached_prefixes_and_does_not_wait_in_vain(
    prompt: list[int], free: int
) -> None:
    sessions, fake_target = leasing(capacity=80 + free), FakeTarget()
    first = asked(sessions, "first", TRUNK)
    answer(first, sessions, fake_target)
    sessions.fail(first, PeerError("it is over", FailureCode.INTERNAL))
    assert (sessions._pool.free, sessions.free_slots) == (free, 80 + free)
    owed = asked(sessions, "owed", prompt, Settings(max_new_tokens=5))
    lose(owed)
    assert sessions.next_due() <= 0.0
    assert one_pass(sessions, fake_target) == 1
    assert sessions.plan(0.0) is None
    assert sessions.next_due() == LEASE
    check_slots(sessions, fake_target)


def test_a_session_on_lease_that_shares_a_prefix_and_is_owed_nothing_does_not_pin_it() -> None:
    sessions, fake_target = leasing(capacity=120), FakeTarget()
    first = asked(sessions, "first", TRUNK)
    answer(first, sessions, fake_target)
    absent = asked(sessions, "absent", [*TRUNK, 7])
    answer(absent, sessions, fake_target)
    for client in (first, absent):
        lose(client)
    assert (sessions.away, sessions.free_slots) == (2, 39)
    newcomer = asked(sessions, "newcomer", prompt_of(3, 110))
    answer(newcomer, sessions, fake_target)
    assert newcomer.session.answer == decode(prompt_of(3, 110), 1)
    assert sessions.away == 0
    check_slots(sessions, fake_target)


def test_a_pass_that_fails_for_a_session_on_lease_leaves_every_slot_in_an_account() -> None:
    sessions, fake_target = leasing(), FakeTarget()
    first = asked(sessions, "first", TRUNK)
    answer(first, sessions, fake_target)
    absent = asked(sessions, "absent", [*TRUNK, *prompt_of(4, 90)])
    batch: PlannedPass[SessionEntry] | None = sessions.plan(0.0)
    assert batch is not None
    lose(absent)
    fake_target.verify(batch.scheduled)
    sessions.complete(batch, [PeerError("it fails", FailureCode.INTERNAL)], 0.0)
    assert sessions.away == 1
    check_slots(sessions, fake_target)
    sessions.plan(LEASE)
    lose(first)
    sessions.plan(2 * LEASE)
    assert (sessions.away, sessions.free_slots) == (0, 2000)
    check_slots(sessions, fake_target)
