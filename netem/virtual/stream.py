"""A session's stream in virtual time: frames with their size on the wire, over an emulated connection.

It replaces gRPC. May know messages, streams and flows; it may not know what sessions do.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from common.protocol.messages import FromClient, FromServer, State
from common.rpc.convert import frame_from_client, frame_from_server
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic
from netem.virtual.tcp import Flow
from server.engine import Engine
from server.sessions.outgoing_queue import OutgoingQueue

_GRPC_PREFIX_BYTES = 5
_HTTP2_HEADER_BYTES = 9

HANDLING_S = 0.0014
"""What a message takes beside the link, at both ends together: Python, gRPC, TCP and the emulator. Measured on two
quiet cores (docs/log.md)."""


class VirtualStream:
    """The client's end of a stream, which also feeds the server's end. Needs a running loop."""

    def __init__(self, engine: Engine, up: Flow, down: Flow):
        self._engine = engine
        self._up = up
        self._down = down
        self._far = OutgoingQueue()
        self._arrived: asyncio.Queue[FromServer | None] = asyncio.Queue()  # None ends it
        self._bytes_up = 0
        self._bytes_down = 0
        self._state_bytes: Counter[str] = Counter()
        self._handled_up, self._handled_down = _Handling(), _Handling()
        self._carrying = asyncio.create_task(self._carry())

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._bytes_up, self._bytes_down, dict(self._state_bytes))

    def send(self, message: FromClient) -> None:
        size_bytes = frame_from_client(message).ByteSize() + _GRPC_PREFIX_BYTES
        self._bytes_up += size_bytes
        self._write_up(size_bytes + _HTTP2_HEADER_BYTES, lambda: self._engine.receive(self._far, message))

    def _write_up(self, size_bytes: int, handled: Callable[[], None]) -> None:
        self._up.write(size_bytes, partial(self._handled_up.then, handled))

    async def receive(self) -> FromServer:
        """The next message. Raises LinkError once the client has closed the stream."""
        message = await self._arrived.get()
        if message is None:
            raise LinkError("the stream was given up")
        return message

    def close(self) -> None:
        """Ends both ends at once; what is under way is dropped."""
        self._arrived.put_nowait(None)
        self._carrying.cancel()
        self._far.end()
        self._engine.leave(self._far)

    async def _carry(self) -> None:
        async for message in self._far:
            await self._down.writable()
            size_bytes = frame_from_server(message).ByteSize() + _GRPC_PREFIX_BYTES
            delivered = partial(self._handled_down.then, partial(self._deliver, message, size_bytes))
            self._down.write(size_bytes + _HTTP2_HEADER_BYTES, delivered)

    def _deliver(self, message: FromServer, size_bytes: int) -> None:
        self._bytes_down += size_bytes
        if isinstance(message, State):
            self._state_bytes[message.kind] += size_bytes
        self._arrived.put_nowait(message)


class _Handling:
    """The handling of messages one way. All of it is charged behind the link, so that the link's send buffer tells the
    server when to wait."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def then(self, act: Callable[[], None]) -> None:
        """Calls `act` when a message that has arrived is handled, in order: timers of one moment may end in any."""
        self._waiting.append(act)
        asyncio.get_running_loop().call_later(HANDLING_S, lambda: self._waiting.popleft()())
