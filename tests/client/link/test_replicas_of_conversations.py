"""Conversations that share a connection: which replica they are on, when its list is asked for again, and who leaves a
full one."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from client.link import shared_connection
from client.link.shared_connection import ConversationStreams, SharedConnection
from client.link.stream import Access
from common.address import Address
from tests.client.link.test_replicas import access_to, fleet


async def test_conversations_stay_together_on_the_replica_that_the_first_of_them_found() -> None:
    async with fleet(0.0, 0.5) as (own, other):
        first = access_to(own).connect()
        async with first, SharedConnection(access_to(own, other), first, own.said) as shared:
            broken = shared.current
            await own.end()
            renewed = await asyncio.gather(shared.renew(broken), shared.renew(broken))
            assert renewed[0] is renewed[1]
            assert shared.access.address == other.address
            await own.begin()
            assert (await shared.renew(renewed[0])) is not renewed[0]
            assert shared.access.address == other.address, "its K/V are there"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_list_is_kept_up_to_date_while_there_are_streams(monkeypatch) -> None:
    monkeypatch.setattr(shared_connection, "_LIST_INTERVAL_S", 0.02)
    async with fleet(0.0, 0.5, 0.9) as (own, gone, new):
        access, first = access_to(own, gone, follow=True), access_to(own).connect()
        access = replace(access, named=(own.address,))
        async with first, SharedConnection(access, first, own.said) as shared:
            own.said = replace(own.said, replicas=(own.address, new.address))
            await asyncio.sleep(0.1)
            assert own.asked == 0, "who asks nothing keeps no connection alive"
            stream = ConversationStreams(shared, "s").open()
            await until(lambda: shared.access.others == (new.address,))
            stream.close()


async def test_a_list_that_is_asked_for_on_a_connection_that_is_closed_is_asked_for_again(monkeypatch) -> None:
    monkeypatch.setattr(shared_connection, "_LIST_INTERVAL_S", 0.02)
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    async with silent, fleet(0.0, 0.5) as (own, new):
        access = Access(Address("127.0.0.1", silent.sockets[0].getsockname()[1]), follow_replicas=True)
        first = access.connect()
        async with SharedConnection(access, first, own.said) as shared:
            stream = ConversationStreams(shared, "s").open()
            await asyncio.sleep(0.1)
            shared.current.connection = access_to(own).connect()
            await first.close()
            await until(lambda: new.address in shared.access.others)
            stream.close()
            await shared.current.connection.close()


async def test_after_a_failure_the_list_is_asked_for_at_once() -> None:
    async with fleet(0.0, 0.5, 0.9) as (own, gone, new):
        own.said = replace(own.said, replicas=(own.address, new.address))
        access = replace(access_to(own, gone, follow=True), named=(own.address,))
        first = access_to(own).connect()
        async with first, SharedConnection(access, first, own.said) as shared:
            await shared.renew(shared.current)
            await until(lambda: shared.access.others == (new.address,))


async def test_a_conversation_whose_replica_is_full_leaves_it_and_the_others_stay() -> None:
    async with fleet(0.5, 0.1, 0.9, 0.9, listed=False) as servers:
        own, opened = servers[0], list[Address]()
        first = access_to(own).connect()
        async with first, SharedConnection(access_to(*servers), first, own.said, opened.append) as shared:
            full, staying = ConversationStreams(shared, "a"), ConversationStreams(shared, "b")
            async with full:
                refused = full.open()
                assert await full.leave_full(1.0)
                refused.close()
                assert full.address in (each.address for each in servers if each is not own)
                for _ in range(2):
                    (await full.dial()).close()
                assert full.address != own.address, "its K/V are there"
                assert opened == [own.address, full.address, full.address]
                assert await full.leave_full(1.0)
                assert not await full.leave_full(1.0), "three are full"
            (await staying.dial()).close()
            assert staying.address == own.address


async def test_who_knows_one_server_has_nowhere_to_go_when_it_is_full() -> None:
    async with fleet(0.0, listed=False) as (alone,):
        first = access_to(alone).connect()
        async with (
            first,
            SharedConnection(access_to(alone), first, alone.said) as shared,
            ConversationStreams(shared, "a") as streams,
        ):
            assert not await streams.leave_full(1.0)
