"""Several conversations' streams on one connection to a real server, and on one new one when it breaks."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from client.link.shared_connection import ConversationStreams, SharedConnection
from client.link.stream import Access
from common.address import Address
from common.protocol.messages import Ping
from common.rpc.stub import Connection, GenerateStream


class Streams:
    """A connection that counts what it carries, and never says anything."""

    def __init__(self):
        self.carried = 0
        self.is_closed = False

    def generate(self, on_close):
        return GenerateStream(self._start, "somewhere", on_close)

    async def stands(self):
        return True

    async def close(self):
        self.is_closed = True

    def _start(self):
        self.carried += 1
        return Silence()


class Silence:
    """A gRPC call."""

    async def write(self, frame):
        pass

    def cancel(self):
        return True


@pytest.fixture
def made(monkeypatch) -> list[Connection]:
    connections = []

    def connect(_):
        connections.append(Streams())
        return connections[-1]

    monkeypatch.setattr(Access, "connect", connect)
    return connections


@asynccontextmanager
async def shared_connection_to_somebody():
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        stack.callback(server.close)
        first = Streams()
        access = Access(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
        yield await stack.enter_async_context(SharedConnection(access, first)), first


async def begun(stream):
    """Something was said on it, which is when it begins."""
    stream.send(Ping(1))
    await asyncio.sleep(0)
    return stream


async def closed(stream) -> None:
    stream.close()
    await asyncio.sleep(0)


async def test_first_streams_share_the_connection_that_was_given(made):
    async with shared_connection_to_somebody() as (shared_connection, first):
        streams = [await begun(ConversationStreams(shared_connection).open()) for _ in range(3)]
        assert (first.carried, made) == (3, [])
        for stream in streams:
            await closed(stream)
    assert not first.is_closed, "it belongs to who gave it"


async def test_streams_that_broke_together_share_the_next_connection(made):
    async with shared_connection_to_somebody() as (shared_connection, _):
        conversations = [ConversationStreams(shared_connection) for _ in range(3)]
        for streams in conversations:
            await closed(streams.open())
        streams = [await begun(each) for each in await asyncio.gather(*(streams.dial() for streams in conversations))]
        assert [connection.carried for connection in made] == [3]
        late = await begun(await ConversationStreams(shared_connection).dial())
        assert [connection.carried for connection in made] == [3, 1], "it was on the newest one, which therefore broke"
        for stream in (*streams, late):
            await closed(stream)
    assert all(connection.is_closed for connection in made)


async def test_a_connection_that_carries_nothing_and_is_not_the_newest_is_closed(made):
    async with shared_connection_to_somebody() as (shared_connection, _):
        staying, going = ConversationStreams(shared_connection), ConversationStreams(shared_connection)
        staying.open(), going.open()
        on_second = await going.dial()
        await closed(on_second)
        assert not made[0].is_closed, "the newest waits for others"
        await going.dial()
        assert (made[0].is_closed, made[1].is_closed) == (True, False)
        kept = await begun(await staying.dial())
        assert made[1].carried == 1, "what was never begun is not counted"
        await closed(kept)
