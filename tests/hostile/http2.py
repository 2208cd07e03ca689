"""An HTTP/2 client that breaks the rules: calls that never end, truncated messages, flow-control windows of zero.

It knows frames and the prefix of a gRPC message, and nothing of their content. Headers are sent as literals, so that
header compression keeps no state.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_INITIAL_WINDOW = 4
_DEFAULT_WINDOW = 65_535
_LARGEST_FRAME = 16_384


class Connection:
    """One connection; streams that the server has not ended count as `standing`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        metadata: Sequence[tuple[str, str]] = (),
    ):
        """`metadata` is sent with every call."""
        self._reader, self._writer = reader, writer
        self._metadata = metadata
        self._next, self._room, self._first_room = 1, _DEFAULT_WINDOW, _DEFAULT_WINDOW
        self._rooms: dict[int, int] = {}
        self._changed = asyncio.Condition()
        self.standing: set[int] = set()
        self.refused = 0  # streams that the server has ended
        self.is_over = False

    async def call(self, path: str) -> int:
        """Begins a call without sending a message; returns its stream."""
        stream, self._next = self._next, self._next + 2
        self._rooms[stream] = self._first_room
        self.standing.add(stream)
        fields = (
            *((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test")),
            *(("te", "trailers"), ("content-type", "application/grpc"), *self._metadata),
        )
        self._write(_HEADERS, _END_HEADERS, stream, b"".join(_literal(name, value) for name, value in fields))
        await self._writer.drain()
        return stream

    async def say(self, stream: int, message: bytes, claimed: int | None = None, *, last: bool = False) -> None:
        """Sends a message, or the beginning of one that claims a larger size. Returns early if the server has ended the
        stream."""
        data = struct.pack(">BI", 0, len(message) if claimed is None else claimed) + message
        while data:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: self.is_over or stream not in self.standing or min(self._room, self._rooms[stream]) > 0
                )
                if self.is_over or stream not in self.standing:
                    return
                size = min(len(data), self._room, self._rooms[stream], _LARGEST_FRAME)
                self._room -= size
                self._rooms[stream] -= size
            part, data = data[:size], data[size:]
            self._write(_DATA, _END_STREAM if last and not data else 0, stream, part)
            await self._writer.drain()

    def ping(self) -> None:
        """Makes the server answer, and with that deliver all that it has sent about streams."""
        self._write(_PING, 0, 0, bytes(8))

    def leave(self, stream: int) -> None:
        self.standing.discard(stream)
        self._write(_RST_STREAM, 0, stream, struct.pack(">I", 8))

    def close(self) -> None:
        self._writer.transport.abort()

    def _write(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream)
        self._writer.write(head + payload)

    async def greet(self, window: int) -> None:
        self._writer.write(_PREFACE)
        self._write(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, window))
        await self._writer.drain()

    async def listen(self) -> None:
        """Answers pings and settings until the server closes the connection."""
        try:
            while True:
                head = await self._reader.readexactly(9)
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                stream = int.from_bytes(head[5:], "big") & 0x7FFF_FFFF
                await self._take(kind, flags, stream, await self._reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            async with self._changed:
                self.is_over = True
                self.standing.clear()
                self._changed.notify_all()

    async def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        async with self._changed:
            if kind == _SETTINGS and not flags & _ACK:
                for name, value in struct.iter_unpack(">HI", payload):
                    if name == _INITIAL_WINDOW:
                        self._rooms = {each: room + value - self._first_room for each, room in self._rooms.items()}
                        self._first_room = value
                self._write(_SETTINGS, _ACK, 0, b"")
            elif kind == _PING and not flags & _ACK:
                self._write(_PING, _ACK, 0, payload)
            elif kind == _WINDOW_UPDATE and stream == 0:
                self._room += int.from_bytes(payload, "big")
            elif kind == _WINDOW_UPDATE and stream in self._rooms:
                self._rooms[stream] += int.from_bytes(payload, "big")
            elif kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                self.refused += stream in self.standing
                self.standing.discard(stream)
                self._rooms.pop(stream, None)
            self._changed.notify_all()


@asynccontextmanager
async def connected(
    address: str,
    window: int = _DEFAULT_WINDOW,
    tls: ssl.SSLContext | None = None,
    metadata: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[Connection]:
    """`window` is what the server may send on a stream unread: with 0 it can end a call but send no message in it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, limit=1 << 24)
    connection = Connection(reader, writer, metadata)
    await connection.greet(window)
    listening = asyncio.create_task(connection.listen())
    try:
        yield connection
    finally:
        listening.cancel()
        connection.close()
        with suppress(asyncio.CancelledError):
            await listening


def _literal(name: str, value: str) -> bytes:
    """A header field that enters no compression table."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    data = text.encode()
    size, rest = len(data), b""
    if size < 127:
        return bytes((size,)) + data
    size, rest = size - 127, b"\x7f"
    while size >= 128:
        rest += bytes((size % 128 + 128,))
        size //= 128
    return rest + bytes((size,)) + data
