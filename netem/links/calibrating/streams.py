"""Measures a link with TCP connections: a server for echo, source and sink at the far end of the link, and its client.

Knows asyncio's streams and no profile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from common.address import Address

_LOOPBACK = "127.0.0.1"
_READ_BYTES = 256 * 1024
_BLOCK = bytes(16 * 1024)
_MS_PER_S = 1000.0
_BITS_PER_BYTE = 8
_ECHO, _SOURCE, _SINK = b"e", b"s", b"k"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FarEnd:
    """The server, and measurements against it. The first byte of a connection says whether it is echo, source or
    sink."""

    def __init__(self) -> None:
        self._sunk_bytes = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Address]:
        """Yields the address on which it listens until the block ends."""
        server = await asyncio.start_server(self._serve, _LOOPBACK, 0)
        async with server:
            yield Address(*server.sockets[0].getsockname()[:2])

    async def ping_ms(self, link: Address, count: int, size_bytes: int) -> list[float]:
        """The round-trip times of `count` messages of size_bytes, one at a time, in milliseconds."""
        clock = asyncio.get_running_loop().time
        times_ms = []
        async with _connected(link, _ECHO) as (reader, writer):
            for number in range(count + 1):
                sent_s = clock()
                writer.write(bytes(size_bytes))
                await reader.readexactly(size_bytes)
                # The first waits for the connection too.
                if number:
                    times_ms.append((clock() - sent_s) * _MS_PER_S)
        return times_ms

    async def rate_down(self, link: Address, warm_s: float, seconds: float) -> float:
        """Bits per second of a bulk download, once it has run for warm_s."""
        clock = asyncio.get_running_loop().time
        async with _connected(link, _SOURCE) as (reader, _):
            await reader.readexactly(1)
            warm_at_s = clock() + warm_s
            while clock() < warm_at_s:
                await reader.read(_READ_BYTES)
            began_s, received = clock(), 0
            while clock() - began_s < seconds:
                received += len(await reader.read(_READ_BYTES))
            return received * _BITS_PER_BYTE / (clock() - began_s)

    async def rate_up(self, link: Address, warm_s: float, seconds: float) -> float:
        """Bits per second of a bulk upload as they arrive, once it has run for warm_s."""
        clock = asyncio.get_running_loop().time
        self._sunk_bytes = 0
        async with _connected(link, _SINK) as (_, writer):
            sending = asyncio.create_task(_send_for_ever(writer))
            while not self._sunk_bytes:
                await asyncio.sleep(0.001)
            await asyncio.sleep(warm_s)
            began_s, began_bytes = clock(), self._sunk_bytes
            await asyncio.sleep(seconds)
            rate = (self._sunk_bytes - began_bytes) * _BITS_PER_BYTE / (clock() - began_s)
            sending.cancel()
            return rate

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            requested = await reader.read(1)
            if requested == _SOURCE:
                await _send_for_ever(writer)
            while received := await reader.read(_READ_BYTES):
                if requested == _ECHO:
                    writer.write(received)
                    await writer.drain()
                else:
                    self._sunk_bytes += len(received)


@contextlib.asynccontextmanager
async def _connected(link: Address, requested: bytes) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(link.host, link.port)
    try:
        writer.write(requested)
        yield reader, writer
    finally:
        # What is still on its way does not matter.
        writer.transport.abort()


async def _send_for_ever(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(_BLOCK)
            await writer.drain()
