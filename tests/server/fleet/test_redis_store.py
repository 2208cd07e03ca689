"""The store that replicas share, with a real Redis or Valkey."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from common.address import Address
from common.protocol.errors import MisuseError
from netem.experiments.service.local_store import LocalStore
from server.fleet import fleet, redis_store
from server.fleet.fleet import Fleet, StoreError
from server.fleet.redis_store import RedisStore
from server.refusal import AdmissionRefusedError
from server.sessions.quotas import Allowance, BucketUse, Quotas
from tests.server.fleet.stores import real_store
from tests.server.fleet.test_members import FIRST


@pytest.fixture
def real(tmp_path) -> Iterator[LocalStore]:
    store = real_store(tmp_path)
    yield store
    store.end()


@asynccontextmanager
async def replica(store: LocalStore, address: str) -> AsyncIterator[RedisStore]:
    opened = RedisStore(store.url)
    try:
        yield opened
    finally:
        try:
            await opened.leave(address)
        except StoreError:
            assert not store.is_running


async def test_replicas_find_each_other_and_leave(real) -> None:
    async with replica(real, "a:1") as first:
        async with replica(real, "b:2") as second:
            await first.exchange("a:1", "one", {})
            found = await second.exchange("b:2", 'two "quoted" \u2603', {})
            assert found.members == {"a:1": "one", "b:2": 'two "quoted" \u2603'}
        assert (await first.exchange("a:1", "newer", {})).members == {"a:1": "newer"}


async def test_a_replica_that_is_not_heard_of_is_forgotten(real, monkeypatch) -> None:
    monkeypatch.setattr(redis_store, "EXPIRY_S", 0.05)
    async with replica(real, "a:1") as first, replica(real, "b:2") as second:
        await first.exchange("a:1", "one", {})
        await asyncio.sleep(0.1)
        assert (await second.exchange("b:2", "two", {})).members == {"b:2": "two"}


async def test_a_replica_that_is_gone_is_forgotten_though_the_stores_clock_is_set_back(real) -> None:
    async with replica(real, "b:2") as second:
        killed = {"at": time.time() + 3600, "record": "one"}
        async with Redis.from_url(real.url) as redis:
            await redis.hset(redis_store._REPLICAS, "a:1", json.dumps(killed))
        assert (await second.exchange("b:2", "two", {})).members == {"b:2": "two"}


async def test_what_is_counted_of_a_replica_is_kept_apart_and_goes_with_it(real, monkeypatch) -> None:
    monkeypatch.setattr(redis_store, "FORGET_S", 0.05)
    uses = {f"tokens client-{number}": BucketUse(60, 10, 10, 50) for number in range(100)}
    async with Redis.from_url(real.url) as raw, replica(real, "a:1") as first, replica(real, "b:2") as second:

        async def counted() -> set[bytes]:
            return {key async for hashed in raw.scan_iter("*counted*") for key in await raw.hkeys(hashed)}

        await first.exchange("a:1", "one", uses)
        (name,) = [key async for key in raw.scan_iter("*replicas*")]
        assert len(await raw.hget(name, "a:1")) < 100, "all replicas read it at each exchange"
        assert await counted() == {b"a:1"}
        await second.exchange("b:2", "two", uses)
        await asyncio.sleep(0.1)
        await second.exchange("b:2", "two", {})
        assert await counted() == {b"b:2"}, "the other one is forgotten"
        await second.leave("b:2")
        assert await counted() == set()


async def test_a_bucket_empties_by_what_all_use_and_fills_by_the_stores_clock(real) -> None:
    async with replica(real, "a:1") as first, replica(real, "b:2") as second:
        await first.exchange("a:1", "", {"tokens alice": BucketUse(6000, 1000, 1000, 5000)})
        found = await second.exchange("b:2", "", {"tokens alice": BucketUse(6000, 2000, 2000, 4000)})
        level = found.levels["tokens alice"]
        assert 3000 <= level < 3000 + 100 * 5, "what the second believed does not matter"
        await asyncio.sleep(0.1)
        later = (await first.exchange("a:1", "", {})).levels["tokens alice"]
        assert later - level >= 0.1 * 100


async def test_of_what_was_not_handed_in_what_is_owed_counts_and_a_minutes_worth(real) -> None:
    async with replica(real, "a:1") as first, replica(real, "b:2") as second:
        await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 30, 30, 30)})
        found = await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 10_030, 10_000, -9_970)})
        assert -9_970 <= found.levels["tokens alice"] < -9_965
        found = await second.exchange("b:2", "", {"tokens alice": BucketUse(60, 500, 500, 30)})
        assert -10_030 <= found.levels["tokens alice"] < -10_025


async def test_a_full_bucket_is_not_kept(real) -> None:
    async with replica(real, "a:1") as first:
        found = await first.exchange("a:1", "", {"requests bob": BucketUse(60_000, 1, 1, 59_999)})
        assert "requests bob" in found.levels
        await asyncio.sleep(0.05)
        assert (await first.exchange("a:1", "", {})).levels == {}


async def test_a_store_that_restarted_begins_at_the_level_that_a_replica_knows(real) -> None:
    async with replica(real, "a:1") as first:
        await first.exchange("a:1", "one", {"tokens alice": BucketUse(60, 10, 10, 50)})
        real.end()
        with pytest.raises(StoreError, match=r"the store at 127\.0\.0\.1:\d+ cannot be used \(.+\)"):
            await first.exchange("a:1", "one", {})
        real.begin()
        found = await first.exchange("a:1", "one", {"tokens alice": BucketUse(60, 15, 5, 45)})
        assert found.members == {"a:1": "one"}
        assert 45 <= found.levels["tokens alice"] < 47


async def test_what_is_handed_in_again_is_counted_once(real, monkeypatch) -> None:
    monkeypatch.setattr(redis_store, "EXPIRY_S", 0.05)
    async with replica(real, "a:1") as first, replica(real, "b:2") as second:
        await second.exchange("b:2", "", {"tokens alice": BucketUse(60, 0, 0, 59)})
        await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 10, 10, 49)})
        await asyncio.sleep(0.1)
        await second.exchange("b:2", "", {})
        again = await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 12, 12, 47)})
        assert 47 <= again.levels["tokens alice"] < 49, "also if it was thought to be gone"
        late = await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 11, 1, 48)})
        assert 47 <= late.levels["tokens alice"] < 49, "an exchange that was overtaken"


async def test_an_exchange_that_a_store_executes_after_it_was_given_up_is_counted_once(real, monkeypatch) -> None:
    monkeypatch.setattr(redis_store, "TIMEOUT_S", 0.2)
    async with replica(real, "a:1") as first:
        await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 10, 10, 50)})
        with real.paused():
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be used"):
                    await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 20, 10, 40)})
        found = await first.exchange("a:1", "", {"tokens alice": BucketUse(60, 25, 15, 35)})
        assert 35 <= found.levels["tokens alice"] < 38


async def test_a_store_that_restarts_in_mid_run_loses_no_request_and_no_count(real, monkeypatch) -> None:
    """Two replicas admit requests, each alone while the store is gone; afterwards both know of all of them."""
    monkeypatch.setattr(fleet, "INTERVAL_S", 0.01)
    per_minute, shared, began, admitted = 60, 30, time.monotonic(), 0
    quotas = [Quotas({"alice": Allowance(requests_per_minute=per_minute)}) for _ in range(2)]
    members = [replace(FIRST, id=str(number), address=Address("10.0.0.1", number + 1)) for number in range(2)]
    fleets = [Fleet(RedisStore(real.url), own, of_one, dict) for own, of_one in zip(members, quotas, strict=True)]

    async def ask(times: int) -> None:
        nonlocal admitted
        running = [asyncio.create_task(each.run()) for each in fleets]
        for number in range(times):
            of_one, now = quotas[number % 2], time.monotonic()
            with suppress(AdmissionRefusedError):
                of_one.check("alice", now)
                of_one.requested("alice", now)
                admitted += 1
            await asyncio.sleep(0.005)
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def all_is_known() -> None:
        for each in fleets * 2:
            await each.join()

    def filled() -> float:
        return (time.monotonic() - began) * per_minute / 60

    await ask(shared)
    await all_is_known()
    assert admitted == shared
    real.end()
    await ask(4 * (per_minute - shared))
    left_to_each = per_minute - shared
    assert shared + 2 * left_to_each <= admitted <= shared + 2 * (left_to_each + filled()), "nobody waits for the store"
    real.begin()
    await ask(20)
    await all_is_known()
    for each in quotas:
        with pytest.raises(AdmissionRefusedError):
            each.check("alice", time.monotonic())
    known = [use.level for each in quotas for use in each.offer(time.monotonic()).values()]
    assert known == [pytest.approx(per_minute - admitted + filled() / 2, abs=filled() / 2 + 0.1)] * 2
    for each in fleets:
        await each.leave()


@pytest.mark.parametrize("url", ["nowhere", "http://127.0.0.1:6379", "redis://", "redis://h:x/0", "redis://[/0"])
def test_what_is_no_url_of_a_store_is_refused_before_anything_is_loaded(url: str) -> None:
    with pytest.raises(MisuseError, match="--fleet-store names no store; write redis://HOST:PORT/0"):
        RedisStore(url)


async def test_a_password_is_not_told() -> None:
    store = RedisStore("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(StoreError) as refused:
        await store.exchange("a:1", "", {})
    assert "secret" not in str(refused.value) + store.name
