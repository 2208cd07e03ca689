"""The store that replicas share, with a real Redis or Valkey."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.service.local_store import LocalStore
from server.fleet import redis_store
from server.fleet.fleet import StoreError
from server.fleet.redis_store import RedisStore
from server.sessions.quotas import BucketUse
from tests.server.fleet.stores import real_store


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


async def test_a_bucket_empties_by_what_all_use_and_fills_by_the_stores_clock(real) -> None:
    async with replica(real, "a:1") as first, replica(real, "b:2") as second:
        await first.exchange("a:1", "", {"tokens alice": BucketUse(6000, 1000, 5000)})
        found = await second.exchange("b:2", "", {"tokens alice": BucketUse(6000, 2000, 4000)})
        level = found.levels["tokens alice"]
        assert 3000 <= level < 3000 + 100 * 5, "what the second believed does not matter"
        await asyncio.sleep(0.1)
        later = (await first.exchange("a:1", "", {})).levels["tokens alice"]
        assert later - level >= 0.1 * 100


async def test_a_full_bucket_is_not_kept(real) -> None:
    async with replica(real, "a:1") as first:
        found = await first.exchange("a:1", "", {"requests bob": BucketUse(60_000, 1, 59_999)})
        assert "requests bob" in found.levels
        await asyncio.sleep(0.05)
        assert (await first.exchange("a:1", "", {})).levels == {}


async def test_a_store_that_restarted_begins_at_the_level_that_a_replica_knows(real) -> None:
    async with replica(real, "a:1") as first:
        await first.exchange("a:1", "one", {"tokens alice": BucketUse(60, 10, 50)})
        real.end()
        with pytest.raises(StoreError, match=r"the store at 127\.0\.0\.1:\d+ cannot be used \(.+\)"):
            await first.exchange("a:1", "one", {})
        real.begin()
        found = await first.exchange("a:1", "one", {"tokens alice": BucketUse(60, 5, 45)})
        assert found.members == {"a:1": "one"}
        assert 45 <= found.levels["tokens alice"] < 47


@pytest.mark.parametrize("url", ["nowhere", "http://127.0.0.1:6379", "redis://", "redis://h:x/0", "redis://[/0"])
def test_what_is_no_url_of_a_store_is_refused_before_anything_is_loaded(url: str) -> None:
    with pytest.raises(MisuseError, match="--fleet-store names no store; write redis://HOST:PORT/0"):
        RedisStore(url)


async def test_a_password_is_not_told() -> None:
    store = RedisStore("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(StoreError) as refused:
        await store.exchange("a:1", "", {})
    assert "secret" not in str(refused.value) + store.name
