"""Sessions whose stream is gone: kept in the order in which they left, dropped when time or slots run out."""

import math

import pytest

from common.models.slots import SlotPool
from common.protocol.client_session import ClientSession
from common.protocol.server_session import ServerSession
from server.passes.prefix_tree import PrefixTree
from server.passes.sequence import HeldSequence
from server.sessions.entry import SessionEntry
from server.sessions.leases import Leases
from server.sessions.outgoing_queue import OutgoingQueue
from tests.server.clients_of_sessions import LIMITS, SETTINGS, TERMS

SECONDS = 10.0


@pytest.fixture
def pool() -> SlotPool:
    return SlotPool(20)


def entry(pool: SlotPool, name: str, slots: int = 2) -> SessionEntry:
    opened = ClientSession(f"a session called {name}", LIMITS).open([1, 2, 3], SETTINGS)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(slots))
    return SessionEntry(ServerSession(opened, TERMS, 0.0), sequence, OutgoingQueue(), 0, None)


def test_one_that_is_dropped_gives_all_back_and_is_told_of(pool: SlotPool) -> None:
    dropped: list[SessionEntry] = []
    leases, first, second = Leases(SECONDS, dropped.append), entry(pool, "first"), entry(pool, "second")
    for each in (first, second):
        leases.add(each, 0.0)
    leases.drop(second)
    assert (leases.holds(first), leases.holds(second)) == (True, False)
    assert (leases.entries, dropped, pool.free) == ([first], [second], 18)
    another = entry(pool, "first")
    assert not leases.holds(another), "it only has the same name"


def test_who_comes_back_finds_everything_and_only_once(pool: SlotPool) -> None:
    leases, away = Leases(SECONDS), entry(pool, "away")
    away.drafter = object()  # type: ignore[assignment]
    leases.add(away, 0.0)
    assert (len(leases), pool.free) == (1, 18)
    assert leases.take(("", "a session called nobody")) is None
    assert leases.take(away.key) is away
    assert away.drafter is not None
    assert leases.take(away.key) is None
    assert (len(leases), leases.next_end, pool.free) == (0, math.inf, 18)


def test_a_lease_ends_when_its_time_is_up(pool: SlotPool) -> None:
    leases, early, late = Leases(SECONDS), entry(pool, "early"), entry(pool, "late")
    assert leases.next_end == math.inf
    leases.add(early, 1.0)
    leases.add(late, 5.0)
    assert leases.next_end == 11.0
    leases.expire(10.999)
    assert len(leases) == 2
    leases.expire(11.0)
    assert (len(leases), pool.free, leases.next_end) == (1, 18, 15.0)
    assert leases.take(early.key) is None
    leases.expire(100.0)
    assert (len(leases), pool.free, leases.next_end) == (0, 20, math.inf)


def test_who_left_again_waits_anew(pool: SlotPool) -> None:
    leases, restless, other = Leases(SECONDS), entry(pool, "restless"), entry(pool, "other")
    leases.add(restless, 0.0)
    leases.add(other, 1.0)
    leases.take(restless.key)
    leases.add(restless, 5.0)
    assert leases.drop_oldest()
    assert leases.take(other.key) is None
    assert leases.next_end == 15.0


def test_room_is_made_at_the_expense_of_who_left_first(pool: SlotPool) -> None:
    leases, first, second = Leases(SECONDS), entry(pool, "first"), entry(pool, "second", slots=3)
    first.drafter = object()  # type: ignore[assignment]
    leases.add(first, 0.0)
    leases.add(second, 0.0)
    assert leases.drop_oldest()
    assert (first.drafter, pool.free) == (None, 17)
    assert leases.drop_oldest()
    assert not leases.drop_oldest()
    assert pool.free == 20


def test_without_a_lease_nothing_is_kept(pool: SlotPool) -> None:
    leases = Leases(0.0)
    leases.add(entry(pool, "gone"), 0.0)
    assert (len(leases), leases.next_end, pool.free) == (0, math.inf, 20)


def test_at_the_end_nothing_is_left(pool: SlotPool) -> None:
    leases = Leases(SECONDS)
    for index in range(3):
        leases.add(entry(pool, str(index)), float(index))
    leases.end()
    assert (len(leases), leases.next_end, pool.free) == (0, math.inf, 20)
    leases.add(entry(pool, "late"), 4.0)
    assert (len(leases), leases.seconds, pool.free) == (0, 0.0, 20), "nobody is kept any more"
