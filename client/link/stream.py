"""The stream of one session over gRPC, whose sender never waits, and how the server is reached.

Knows no sessions and no drafting. Calls fail with sentences already, by `common.rpc.errors`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from client.stats import Traffic
from common.address import Address
from common.protocol.errors import OutriderError
from common.protocol.messages import FromClient, FromServer
from common.rpc.credentials import ClientTls
from common.rpc.stub import Connection, GenerateStream, connect


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how it is addressed; `tls` is None for plaintext."""

    address: Address
    tls: ClientTls | None = None
    token: str | None = None

    def connect(self) -> Connection:
        """Raises MisuseError for broken credentials."""
        return connect(str(self.address), tls=self.tls, token=self.token)


class Stream(Protocol):
    """A session's stream, whatever carries it."""

    @property
    def traffic(self) -> Traffic: ...

    def send(self, message: FromClient) -> None:
        """Never waits; messages leave in order."""
        ...

    def receive(self) -> Awaitable[FromServer | None]:
        """The next frame, None once the server has ended the stream. Raises LinkError if it is broken or closed."""
        ...

    def close(self) -> None: ...


class QueuedStream:
    """A `Stream` over gRPC: messages wait in a queue while the link is slow. Needs a running event loop. `begin` starts
    the call with the first message, because a server does not wait long for that; `on_close` is awaited after `close`.
    """

    def __init__(self, begin: Callable[[], GenerateStream], on_close: Callable[[], Awaitable[None]] | None = None):
        self._begin = begin
        self._begun: GenerateStream | None = None
        self._on_close = on_close
        outgoing: asyncio.Queue[FromClient] = asyncio.Queue()
        self.send = outgoing.put_nowait
        self._writer = asyncio.create_task(self._write(outgoing))

    @property
    def traffic(self) -> Traffic:
        call = self._begun
        return Traffic() if call is None else Traffic(call.bytes_up, call.bytes_down, dict(call.state_bytes))

    def receive(self) -> Awaitable[FromServer | None]:
        """The next frame, None once the server has ended the stream. Raises OutriderError if it is broken."""
        return self._call.receive()

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()
        self._writer.cancel()
        if self._on_close is not None:
            self._closing = asyncio.ensure_future(self._on_close())
            self._on_close = None

    @property
    def _call(self) -> GenerateStream:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    async def _write(self, outgoing: "asyncio.Queue[FromClient]") -> None:
        try:
            while True:
                message = await outgoing.get()
                await self._call.send(message)
        except OutriderError:
            return  # reading fails by the same fault, and reports it
