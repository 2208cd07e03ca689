"""How a conversation speaks to a server: where it is, who we are, and a stream that never holds up its sender.

Knows no sessions and no drafting. Calls fail with sentences already, by `common.rpc.errors`.
"""

import asyncio
from collections import Counter
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
    """A generation stream whose messages wait in a queue while the link is slow. Needs a running event loop."""

    def __init__(self, stream: GenerateStream):
        self._stream = stream
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

    async def _write(self) -> None:
        try:
            while True:
                await self._stream.send(await self._outgoing.get())
        except OutriderError:
            # Reading fails by the same fault and tells it.
            return
