"""How a conversation speaks to a server: where it is, who we are, and a stream that never holds up its sender.

Knows no sessions and no drafting. Calls fail with sentences already, by `common.rpc.errors`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

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
    """A generation stream whose messages wait in a queue while the link is slow. Needs a running event loop. `begin`
    makes it when there is something to say, because a server does not wait long for that; `end` ends what it alone has
    used."""

    def __init__(self, begin: Callable[[], GenerateStream], end: Callable[[], Awaitable[None]] | None = None):
        self._begin = begin
        self._begun: GenerateStream | None = None
        self._end = end
        self._outgoing: asyncio.Queue[FromClient] = asyncio.Queue()
        self._state_bytes: Counter[str] = Counter()
        self._writer = asyncio.create_task(self._write())

    @property
    def traffic(self) -> Traffic:
        stream = self._begun
        return Traffic() if stream is None else Traffic(stream.bytes_up, stream.bytes_down, dict(self._state_bytes))

    def send(self, message: FromClient) -> None:
        self._outgoing.put_nowait(message)

    async def receive(self) -> FromServer:
        """The next frame. Raises OutriderError where the stream is broken or was ended by the server."""
        stream = self._stream
        before = stream.bytes_down
        message = await stream.receive()
        if message is None:
            raise LinkError("the server has ended the stream; ask again")
        if isinstance(message, State):
            self._state_bytes[message.kind] += stream.bytes_down - before
        return message

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()
        self._writer.cancel()
        if self._end is not None:
            self._ending = asyncio.ensure_future(self._end())
            self._end = None

    @property
    def _stream(self) -> GenerateStream:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    async def _write(self) -> None:
        try:
            while True:
                message = await self._outgoing.get()
                await self._stream.send(message)
        except OutriderError:
            # Reading fails by the same fault and tells it.
            return
