"""A TCP proxy that adds nothing and can be broken at will: reset, silenced, or moved to another address.

What it holds back while it is silent comes late and is not lost, as TCP's own repeats would have it. A connection
begun in the meantime is accepted and hears nothing. Knows neither what it carries nor who asked for it.
"""

import asyncio
import contextlib
import socket
from itertools import cycle
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.acceptance import Acceptance

_LOOPBACK = Address("127.0.0.1", 0)
_SOURCES = tuple(f"127.0.0.{host}" for host in range(2, 250))  # Linux answers for all of them
_READ_BYTES = 32 * 1024


class BreakableProxy:
    """`async with BreakableProxy(target) as proxy` listens until the block ends, then drops its connections. `target`
    is where connections lead that begin from now on."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self._sources = cycle(_SOURCES)
        self._source = next(self._sources)
        self._crossings: set[_Crossing] = set()
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
        self._acceptance = Acceptance(self._listener, self._carry)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._acceptance.end()

    def reset(self) -> None:
        """Breaks every connection, to both sides."""
        for crossing in self._crossings:
            crossing.broken.set()

    def silence(self) -> None:
        """Nothing comes through any more, and nobody is told."""
        self._gate.clear()

    def speak(self) -> None:
        """What was held back comes through, and what follows."""
        self._gate.set()

    def move(self) -> None:
        """The connections that stand fall silent for good; the next ones come from another address."""
        for crossing in self._crossings:
            crossing.gate = asyncio.Event()
        self._source = next(self._sources)

    async def _carry(self, client: socket.socket, connection: int) -> None:
        sockets.tune(client)
        try:
            server = await self._connect()
        except OSError:
            sockets.reset_on_close(client)
            return
        crossing = _Crossing(self._gate)
        self._crossings.add(crossing)
        with server:
            try:
                await crossing.carry(client, server)
            finally:
                self._crossings.discard(crossing)

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


class _Crossing:
    """One connection. Bytes pass while `gate` is set."""

    def __init__(self, gate: asyncio.Event) -> None:
        self.gate = gate
        self.broken = asyncio.Event()

    async def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Until both have closed, one is gone, or it is broken."""
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
