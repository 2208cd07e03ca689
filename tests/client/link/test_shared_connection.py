"""Several conversations' streams on one connection to a real server, and on one new one when it breaks."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest

from client.link.shared_connection import ConversationStreams, SharedConnection
from client.link.stream import Access
from common.address import Address
from common.protocol.messages import Ping
from common.rpc.service import OutriderService, register
from common.rpc.stub import SESSION_HEADER, Connection, GenerateStream


class Streams:
    """A connection that counts what it carries, and never says anything."""

    def __init__(self):
        self.carried = 0
        self.is_closed = False

    def generate(self, on_close, session):
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
        streams = [await begun(ConversationStreams(shared_connection, "s").open()) for _ in range(3)]
        assert (first.carried, made) == (3, [])
        for stream in streams:
            await closed(stream)
    assert not first.is_closed, "it belongs to who gave it"


async def test_streams_that_broke_together_share_the_next_connection(made):
    async with shared_connection_to_somebody() as (shared_connection, _):
        conversations = [ConversationStreams(shared_connection, "s") for _ in range(3)]
        for streams in conversations:
            await closed(streams.open())
        streams = [await begun(each) for each in await asyncio.gather(*(streams.dial() for streams in conversations))]
        assert [connection.carried for connection in made] == [3]
        late = await begun(await ConversationStreams(shared_connection, "s").dial())
        assert [connection.carried for connection in made] == [3, 1], "it was on the newest one, which therefore broke"
        for stream in (*streams, late):
            await closed(stream)
    assert all(connection.is_closed for connection in made)


async def test_a_connection_is_renewed_once_another_stands(made):
    async with shared_connection_to_somebody() as (shared_connection, _):
        streams = ConversationStreams(shared_connection, "s")
        await closed(streams.open())
        assert not shared_connection.is_renewed
        await closed(await streams.dial())
        assert shared_connection.is_renewed


async def test_a_connection_that_carries_nothing_and_is_not_the_newest_is_closed(made):
    async with shared_connection_to_somebody() as (shared_connection, _):
        staying, going = ConversationStreams(shared_connection, "a"), ConversationStreams(shared_connection, "b")
        staying.open(), going.open()
        on_second = await going.dial()
        await closed(on_second)
        assert not made[0].is_closed, "the newest waits for others"
        await going.dial()
        assert (made[0].is_closed, made[1].is_closed) == (True, False)
        kept = await begun(await staying.dial())
        assert made[1].carried == 1, "what was never begun is not counted"
        await closed(kept)


class Recording(OutriderService):
    """Ends every stream after its first message; records the session that its header names."""

    def __init__(self):
        self.sessions = []

    def describe(self, model):
        raise NotImplementedError

    def fetch(self, request):
        raise NotImplementedError

    @asynccontextmanager
    async def generate(self, messages, metadata, peer):
        self.sessions.append(dict(metadata).get(SESSION_HEADER))
        yield ended(messages)


async def ended(messages):
    await anext(messages)
    return
    yield


async def test_every_stream_of_a_conversation_names_its_session_to_load_balancers():
    service, server = Recording(), grpc.aio.server()
    register(service, server)
    address = Address("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    access = Access(address)
    async with access.connect() as first, SharedConnection(access, first) as shared_connection:
        one, other = (ConversationStreams(shared_connection, name) for name in ("one", "other"))
        for stream in (one.open(), await one.dial(), other.open()):
            stream.send(Ping(1))
            assert await stream.receive() is None
            stream.close()
    await server.stop(None)
    assert service.sessions[0] == service.sessions[1] != service.sessions[2]
    assert all(session and "one" not in session for session in service.sessions[:2]), "ids do not belong into logs"
