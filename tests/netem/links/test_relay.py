"""netem.links.relay between socket pairs of this host."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from netem.links.relay import relay
from netem.links.sockets import reset_on_close


@contextlib.asynccontextmanager
async def relayed(counted: list[int]) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """The two outer ends of what a relay joins."""
    client, near = _tcp_pair()
    far, server = _tcp_pair()
    with client, near, far, server:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            running = group.create_task(_relay_and_close(near, far, counted))
            yield client, server
            running.cancel()


async def _relay_and_close(near: socket.socket, far: socket.socket, counted: list[int]) -> None:
    with near, far:
        await relay(near, far, counted.append, lambda size: counted.append(-size))


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    for end in (one, other):
        end.setblocking(False)
    return one, other


async def test_bytes_cross_both_ways_and_are_counted() -> None:
    loop, counted = asyncio.get_running_loop(), list[int]()
    async with relayed(counted) as (client, server):
        await loop.sock_sendall(client, b"question")
        assert await loop.sock_recv(server, 100) == b"question"
        await loop.sock_sendall(server, b"yes")
        assert await loop.sock_recv(client, 100) == b"yes"
    assert counted == [8, -3]


async def test_a_half_that_closes_leaves_the_other_open() -> None:
    loop = asyncio.get_running_loop()
    async with relayed([]) as (client, server):
        client.shutdown(socket.SHUT_WR)
        assert await loop.sock_recv(server, 100) == b""
        await loop.sock_sendall(server, b"still here")
        assert await loop.sock_recv(client, 100) == b"still here"


async def test_a_reset_crosses_as_a_reset() -> None:
    loop = asyncio.get_running_loop()
    async with relayed([]) as (client, server):
        reset_on_close(server)
        server.close()
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 100)
