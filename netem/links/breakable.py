"""A TCP proxy without delay or loss whose connections can be broken: reset, silenced, or moved to another address.

What it holds back while it is silent is delivered late and not lost, as TCP's retransmissions would do. A connection
begun meanwhile is accepted and receives nothing. Knows nothing of what the connections carry.
"""

import asyncio
import contextlib
import socket
from itertools import cycle
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.acceptor import Acceptor

_LOOPBACK = Address("127.0.0.1", 0)
_SOURCES = tuple(f"127.0.0.{host}" for host in range(2, 250))  # Linux answers for all of them
_READ_BYTES = 32 * 1024


class BreakableProxy:
    """`async with BreakableProxy(target) as proxy` listens until the block ends, then drops its connections.

    target: the address to which new connections lead; it may be changed at any time.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self._sources = cycle(_SOURCES)
        self._source = next(self._sources)
        self._connections: set[_ProxiedConnection] = set()
        self._gate = asyncio.Event()
        self._gate.set()

    @property
    def address(self) -> Address:
        """Where clients connect to."""
        host, port = self._listener.getsockname()[:2]
        return Address(host, port)

    async def __aenter__(self) -> Self:
        """Raises LinkFailureError where there is no port to listen on."""
        self._listener = await sockets.listen(_LOOPBACK)
        self._acceptor = Acceptor(self._listener, self._carry)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._acceptor.end()

    def reset(self) -> None:
        """Breaks every connection, to both sides."""
        for crossing in self._connections:
            crossing.broken.set()

    def go_silent(self) -> None:
        """Delivers nothing more until `resume`; neither side is told."""
        self._gate.clear()

    def resume(self) -> None:
        """Delivers what was held back and what follows."""
        self._gate.set()

    def move(self) -> None:
        """The present connections are silent for good; new ones reach the server from another source address."""
        for crossing in self._connections:
            crossing.gate = asyncio.Event()
        self._source = next(self._sources)

    async def _carry(self, client: socket.socket, connection: int) -> None:
        sockets.tune(client)
        try:
            server = await self._connect()
        except OSError:
            sockets.reset_on_close(client)
            return
        crossing = _ProxiedConnection(self._gate)
        self._connections.add(crossing)
        with server:
            try:
                await crossing.carry(client, server)
            finally:
                self._connections.discard(crossing)

    async def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sockets.tune(connection)
            connection.bind((self._source, 0))
            await asyncio.get_running_loop().sock_connect(connection, (self.target.host, self.target.port))
        except BaseException:
            connection.close()
            raise
        return connection


class _ProxiedConnection:
    """One connection. Bytes are delivered while `gate` is set."""

    def __init__(self, gate: asyncio.Event) -> None:
        self.gate = gate
        self.broken = asyncio.Event()

    async def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Copies both ways until both sides have closed, one is gone, or `broken` is set."""
        try:
            async with asyncio.TaskGroup() as tasks:
                breaking = tasks.create_task(self._break())
                halves = [tasks.create_task(self._half(*ends)) for ends in ((client, server), (server, client))]
                for half in halves:
                    await half
                breaking.cancel()
        except* OSError:
            sockets.reset_on_close(client)
            sockets.reset_on_close(server)

    async def _break(self) -> None:
        await self.broken.wait()
        raise ConnectionResetError

    async def _half(self, source: socket.socket, sink: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while received := await loop.sock_recv(source, _READ_BYTES):
            await self._let_through()
            await loop.sock_sendall(sink, received)
        await self._let_through()
        # Both halves may have closed at once.
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    async def _let_through(self) -> None:
        while not self.gate.is_set():
            await self.gate.wait()
