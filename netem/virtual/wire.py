"""A session's stream in virtual time: frames of the size that they have on the wire, over an emulated connection.

Stands where gRPC stands in real time. May know messages, streams and flows; it may not know what sessions do.
"""

import asyncio
from collections import Counter
from functools import partial

from client.stats import Traffic
from common.protocol.messages import FromClient, FromServer, State
from common.rpc.convert import frame_from_client, frame_from_server
from common.rpc.errors import LinkError
from netem.virtual.tcp import Flow
from server.engine import Engine
from server.sessions.stream import Stream

_GRPC_PREFIX_BYTES = 5
_HTTP2_HEADER_BYTES = 9


class VirtualStream:
    """The client's stream, and the server's end of it. Needs a running loop."""

    def __init__(self, engine: Engine, up: Flow, down: Flow):
        self._engine = engine
        self._up = up
        self._down = down
        self._far = Stream()
        self._arrived: asyncio.Queue[FromServer | None] = asyncio.Queue()  # None ends it
        self._bytes_up = 0
        self._bytes_down = 0
        self._state_bytes: Counter[str] = Counter()
        self._carrying = asyncio.create_task(self._carry())

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._bytes_up, self._bytes_down, dict(self._state_bytes))

    def send(self, message: FromClient) -> None:
        size = frame_from_client(message).ByteSize() + _GRPC_PREFIX_BYTES
        self._bytes_up += size
        self._up.write(size + _HTTP2_HEADER_BYTES, lambda: self._engine.receive(self._far, message))

    async def receive(self) -> FromServer:
        """Raises LinkError once the stream was closed here."""
        message = await self._arrived.get()
        if message is None:
            raise LinkError("the stream was given up")
        return message

    def close(self) -> None:
        """What is still under way is heard by nobody."""
        self._arrived.put_nowait(None)
        self._carrying.cancel()
        self._far.end()
        self._engine.leave(self._far)

    async def _carry(self) -> None:
        async for message in self._far:
            await self._down.writable()
            size = frame_from_server(message).ByteSize() + _GRPC_PREFIX_BYTES
            self._down.write(size + _HTTP2_HEADER_BYTES, partial(self._deliver, message, size))

    def _deliver(self, message: FromServer, size: int) -> None:
        self._bytes_down += size
        if isinstance(message, State):
            self._state_bytes[message.kind] += size
        self._arrived.put_nowait(message)
