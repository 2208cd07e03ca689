"""How a conversation speaks to a server: where it is, who we are, and a stream that never holds up its sender.

Knows no sessions and no drafting. Calls fail with sentences already, by `common.rpc.errors`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from client.reach import reach
from client.stats import Traffic
from common.address import Address
from common.protocol.errors import OutriderError
from common.protocol.messages import FromClient, FromServer, State
from common.rpc.credentials import ClientTls
from common.rpc.errors import LinkError
from common.rpc.stub import Connection, GenerateStream, connect


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how it is spoken to; `tls` is None for plaintext."""

    address: Address
    tls: ClientTls | None = None
    token: str | None = None

    def connect(self) -> Connection:
        """Raises MisuseError for broken credentials."""
        return connect(str(self.address), tls=self.tls, token=self.token)


class QueuedStream:
    """A generation stream whose messages wait in a queue while the link is slow. Needs a running event loop. `end` ends
    what the stream alone has used."""

    def __init__(self, stream: GenerateStream, end: Callable[[], Awaitable[None]] | None = None):
        self._stream = stream
        self._end = end
        self._outgoing: asyncio.Queue[FromClient] = asyncio.Queue()
        self._state_bytes: Counter[str] = Counter()
        self._writer = asyncio.create_task(self._write())

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._stream.bytes_up, self._stream.bytes_down, dict(self._state_bytes))

    def send(self, message: FromClient) -> None:
        self._outgoing.put_nowait(message)

    async def receive(self) -> FromServer:
        """The next frame. Raises OutriderError where the stream is broken or was ended by the server."""
        before = self._stream.bytes_down
        message = await self._stream.receive()
        if message is None:
            raise LinkError("the server has ended the stream; ask again")
        if isinstance(message, State):
            self._state_bytes[message.kind] += self._stream.bytes_down - before
        return message

    def close(self) -> None:
        self._stream.close()
        self._writer.cancel()
        if self._end is not None:
            self._ending = asyncio.ensure_future(self._end())
            self._end = None

    async def _write(self) -> None:
        try:
            while True:
                await self._stream.send(await self._outgoing.get())
        except OutriderError:
            # Reading fails by the same fault and tells it.
            return


async def dial(access: Access) -> QueuedStream:
    """A stream on a connection of its own, because one that broke waits long before it tries again.

    Raises LinkError where the server refuses or its name is unknown; where nothing answers, it goes on until it is
    cancelled.
    """
    await reach(access.address)
    connection = access.connect()
    return QueuedStream(connection.generate(), connection.close)
