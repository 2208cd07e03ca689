"""A proxy that is broken at will: what stands breaks, waits or falls silent, and what comes later goes on."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from common.address import Address
from netem.links.breakable import BreakableProxy


class Echo:
    """Answers with what it hears, and remembers from where it was asked."""

    def __init__(self):
        self.sources = []

    async def __call__(self, reader, writer):
        self.sources.append(writer.get_extra_info("peername")[0])
        try:
            while heard := await reader.read(100):
                writer.write(heard)
        except ConnectionError:
            self.sources.append("reset")
        finally:
            writer.close()


@asynccontextmanager
async def proxied():
    echo = Echo()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, BreakableProxy(Address(*server.sockets[0].getsockname())) as proxy:
        yield proxy, echo


async def connect(proxy):
    return await asyncio.open_connection(proxy.address.host, proxy.address.port)


async def echoed(connection, said: bytes, within_s: float = 10) -> bytes:
    reader, writer = connection
    writer.write(said)
    return await asyncio.wait_for(reader.read(100), within_s)


async def test_a_reset_reaches_both_sides_and_the_next_connection_stands():
    async with proxied() as (proxy, echo):
        connection = await connect(proxy)
        assert await echoed(connection, b"one") == b"one"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(connection[0].read(100), 1)
        await asyncio.sleep(0.05)
        assert echo.sources[-1] == "reset"
        assert await echoed(await connect(proxy), b"two") == b"two"


async def test_what_is_said_into_silence_comes_when_it_ends_on_old_connections_and_new_ones():
    async with proxied() as (proxy, _):
        old = await connect(proxy)
        assert await echoed(old, b"before") == b"before"
        proxy.go_silent()
        new = await connect(proxy)
        for connection in (old, new):
            with pytest.raises(TimeoutError):
                await echoed(connection, b"into silence", 0.3)
        proxy.resume()
        for connection in (old, new):
            assert await asyncio.wait_for(connection[0].read(100), 1) == b"into silence"


async def test_after_a_move_the_old_connection_is_silent_for_good_and_the_new_one_comes_from_elsewhere():
    async with proxied() as (proxy, echo):
        old = await connect(proxy)
        assert await echoed(old, b"before") == b"before"
        proxy.move()
        assert await echoed(await connect(proxy), b"behind") == b"behind"
        proxy.go_silent()
        proxy.resume()
        with pytest.raises(TimeoutError):
            await echoed(old, b"lost", 0.3)
        assert len(set(echo.sources)) == 2


async def test_where_nobody_listens_the_client_is_told():
    async with proxied() as (proxy, _):
        proxy.target = Address("127.0.0.1", 9)
        reader, _ = await connect(proxy)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(100), 1)
