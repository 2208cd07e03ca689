"""A fleet as one replica sees it, with a store in memory that comes and goes."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from server.fleet import fleet
from server.fleet.fleet import Fleet, StoreError
from server.fleet.members import Member
from server.refusal import AdmissionRefusedError
from server.sessions.quotas import Allowance, Quotas
from tests.server.fleet.stores import SharedMemory
from tests.server.fleet.test_members import FIRST, TARGET

ALICE = {"alice": Allowance(max_sessions=3, requests_per_minute=10, tokens_per_minute=1000)}


class Replica:
    """With a clock of its own."""

    def __init__(self, store: SharedMemory, number: int, own: Member = FIRST):
        self.now = 1000.0 * number
        self.sessions: dict[str, int] = {}
        self.quotas = Quotas(ALICE)
        own = replace(own, id=str(number), address=Address("10.0.0.1", 7070 + number))
        self.fleet = Fleet(store, own, self.quotas, lambda: self.sessions, lambda: self.now)

    def asks(self, times: int) -> int:
        """How many of so many requests are admitted."""
        for count in range(times):
            try:
                self.quotas.check("alice", self.now)
            except AdmissionRefusedError:
                return count
            self.quotas.requested("alice", self.now)
        return times


@pytest.fixture
def store() -> SharedMemory:
    return SharedMemory()


async def exchanged(*replicas: Replica, times: int = 1) -> None:
    for _ in range(times):
        for each in replicas:
            await each.fleet.join()


async def test_replicas_hear_of_each_other_and_of_those_that_leave(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    await exchanged(first, second, first)
    assert first.fleet.addresses == second.fleet.addresses == (Address("10.0.0.1", 7071), Address("10.0.0.1", 7072))
    await second.fleet.leave()
    await exchanged(first)
    assert first.fleet.addresses == (Address("10.0.0.1", 7071),)


OTHERWISE = replace(FIRST, targets=(replace(TARGET, numerics="float64"),))


@pytest.mark.parametrize("port", [7071, 7072])
async def test_what_was_killed_is_waited_for_until_the_store_forgets_it(port: int, store, monkeypatch) -> None:
    """At its own address, or with its whole fleet."""
    monkeypatch.setattr(fleet, "INTERVAL_S", 0.0)
    store.records["killed"] = replace(OTHERWISE, address=Address("10.0.0.1", port)).record()
    restarted = Replica(store, 2)
    joining = asyncio.create_task(restarted.fleet.join())
    for _ in range(10):
        await asyncio.sleep(0)
    restarted.now += fleet.EXPIRY_S - 0.1
    for _ in range(10):
        await asyncio.sleep(0)
    assert not joining.done()
    del store.records["killed"]
    await joining


async def test_a_replica_with_another_target_does_not_begin_and_is_named(store, monkeypatch) -> None:
    monkeypatch.setattr(fleet, "INTERVAL_S", 0.0)
    await exchanged(Replica(store, 1))
    stranger = Replica(store, 2, replace(FIRST, targets=(replace(TARGET, fingerprint="0" * 64),)))
    joining = asyncio.create_task(stranger.fleet.join())
    await asyncio.sleep(0)
    stranger.now += fleet.EXPIRY_S
    with pytest.raises(MisuseError, match=r"10\.0\.0\.1:7072 is no replica of 10\.0\.0\.1:7071.*000 is not|demo \("):
        await joining
    assert list(store.records) == ["1"]


async def test_what_a_draining_replica_goes_on_with_counts_until_it_has_left(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.sessions = {"alice": 2}
    await exchanged(first, second)
    first.asks(3)
    await first.fleet.drain()
    await exchanged(second)
    assert second.fleet.addresses == (Address("10.0.0.1", 7072),)
    assert (second.quotas.sessions_elsewhere("alice"), second.asks(10)) == (2, 7)
    await exchanged(second)
    first.quotas.used("alice", 1500, first.now)
    await first.fleet.leave()
    await exchanged(second)
    assert second.quotas.sessions_elsewhere("alice") == 0
    second.now += 6  # for a request
    with pytest.raises(AdmissionRefusedError, match="has used up its tokens"):
        second.quotas.check("alice", second.now)


async def test_a_draining_replica_is_no_stranger_whatever_its_target_is(store, monkeypatch, caplog) -> None:
    monkeypatch.setattr(fleet, "INTERVAL_S", 0.0)
    former = Replica(store, 1)
    await exchanged(former)
    await former.fleet.drain()
    first = Replica(store, 2, replace(FIRST, targets=(replace(TARGET, fingerprint="0" * 64),)))
    await exchanged(first)
    running = asyncio.create_task(first.fleet.run())
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    assert first.fleet.addresses == (Address("10.0.0.1", 7072),)
    assert not caplog.messages


async def test_an_exchange_waits_for_another_one(store) -> None:
    """Or what one offers would count as agreed with the other."""
    replica, under_way, exchange = Replica(store, 1), list[str](), store.exchange

    async def slow(*said):
        under_way.append("begins")
        await asyncio.sleep(0)
        under_way.append("ends")
        return await exchange(*said)

    store.exchange = slow
    await asyncio.gather(replica.fleet.join(), replica.fleet.drain())
    assert under_way == ["begins", "ends"] * 2


async def test_a_quota_is_one_for_all_replicas(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    assert first.asks(6) == 6
    await exchanged(first, second)
    assert second.asks(10) == 4
    await exchanged(second, first)
    assert first.asks(1) == 0


async def test_what_is_used_while_an_exchange_is_under_way_is_counted_once(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    exchange = store.exchange

    async def slow(*said):
        first.asks(2)
        return await exchange(*said)

    first.asks(3)
    store.exchange = slow
    await first.fleet.join()
    store.exchange = exchange
    await exchanged(first, second)
    assert (first.asks(10), second.asks(10)) == (5, 5)


async def test_sessions_on_other_replicas_count(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.sessions = {"alice": 2}
    await exchanged(first, second)
    assert (first.quotas.sessions_elsewhere("alice"), second.quotas.sessions_elsewhere("alice")) == (0, 2)


async def test_without_the_store_each_replica_counts_alone_and_says_so_once(store, caplog) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.sessions = {"alice": 3}
    await exchanged(first, second)
    store.is_gone = True
    with caplog.at_level(logging.WARNING):
        await exchanged(first, second, times=3)
    lost = [text for text in caplog.messages if "each replica enforces whole quotas by itself" in text]
    assert len(lost) == 2, "one of each replica"
    assert second.quotas.sessions_elsewhere("alice") == 0
    assert len(first.fleet.addresses + second.fleet.addresses) >= 3, "those that were known are still listed"
    assert (first.asks(20), second.asks(20)) == (10, 10)


async def test_who_leaves_does_not_wait_for_a_store_that_was_gone_at_the_last_exchange(store) -> None:
    replica = Replica(store, 1)
    await exchanged(replica)
    store.is_gone = True
    await replica.fleet.drain()
    store.is_gone = False
    left = store.records["1"]
    store.leave = AsyncMock()
    await replica.fleet.leave()
    assert store.records["1"] == left, "it was not said again"
    store.leave.assert_awaited_once_with("1")


async def test_a_store_that_comes_back_empty_learns_the_levels_again(store, caplog) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.asks(4)
    await exchanged(first, second)
    store.is_gone = True
    second.asks(3)
    await exchanged(first, second)
    store.is_gone, store.levels, store.records, store.counted = False, {}, {}, {}
    with caplog.at_level(logging.WARNING):
        await exchanged(first, second, first)
    assert [text for text in caplog.messages if "the store at memory is back" in text]
    assert first.asks(10) == 3
    assert len(first.fleet.addresses) == 2


async def test_after_a_long_outage_a_client_makes_up_for_a_minute_and_no_more(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.asks(1)
    await exchanged(first, second)
    store.is_gone = True
    for _ in range(30):
        second.now += 60
        assert second.asks(10) == 10
        await exchanged(second)
    store.is_gone = False
    await exchanged(second, first)
    with pytest.raises(AdmissionRefusedError) as refused:
        first.quotas.check("alice", first.now)
    assert refused.value.retry_after <= 66


async def test_what_a_client_owes_it_owes_on_all_replicas(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    first.quotas.used("alice", 500, first.now)
    await exchanged(first, second)
    first.quotas.used("alice", 100_000, first.now)
    await exchanged(first, second)
    for each in (first, second):
        with pytest.raises(AdmissionRefusedError) as refused:
            each.quotas.check("alice", each.now)
        assert refused.value.retry_after == pytest.approx(99_501 * 60 / 1000)


async def test_what_nobody_expects_of_a_store_ends_no_server(store, caplog, monkeypatch) -> None:
    async def failed(*said):
        raise RuntimeError

    monkeypatch.setattr(store, "exchange", failed)
    first = Replica(store, 1)
    with caplog.at_level(logging.WARNING):
        await exchanged(first, times=2)
    assert len([text for text in caplog.messages if text.startswith("RuntimeError in test_fleet.py:")]) == 1
    assert first.asks(20) == 10


async def test_what_was_executed_although_its_reply_was_lost_is_counted_once(store) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    await exchanged(first, second)
    first.asks(4)
    store.is_silent = True
    await exchanged(first, times=3)
    first.asks(1)
    store.is_silent = False
    await exchanged(first, second)
    assert (first.asks(10), second.asks(10)) == (5, 5)


async def test_a_store_that_swallows_a_cancellation_keeps_no_server_from_draining(store, monkeypatch) -> None:
    monkeypatch.setattr(fleet, "INTERVAL_S", 0.001)
    exchanging = asyncio.Event()

    async def swallowing(*said):
        exchanging.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise StoreError("the connection was closed")

    monkeypatch.setattr(store, "exchange", swallowing)
    running = asyncio.create_task(Replica(store, 1).fleet.run())
    await exchanging.wait()
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=5)
    assert done


async def test_a_replica_of_another_release_is_left_out_and_named_once(store, caplog) -> None:
    first, second = Replica(store, 1), Replica(store, 2)
    store.records["9"] = "{}"
    first.asks(4)
    with caplog.at_level(logging.WARNING):
        await exchanged(first, second, first)
    told = "a replica in the store at memory is left out: no replica of this release wrote this"
    assert caplog.messages == [told] * 2, "one of each replica"
    assert first.fleet.addresses == (Address("10.0.0.1", 7071), Address("10.0.0.1", 7072))
    assert second.asks(10) == 6
