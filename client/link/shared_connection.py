"""One connection to a server that the streams of several conversations share, replaced once a stream on it broke.

It may not know sessions, drafting or what a stream carries.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from client.link.dial import dial
from client.link.replicas import dial_replica
from client.link.stream import Access
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection, GenerateStream


@dataclass(eq=False, slots=True)
class CountedConnection:
    """A connection and how many streams it carries."""

    connection: Connection
    streams: int = 0


class SharedConnection:
    """`first` carries streams until one of them breaks; whoever made it closes it. Where `access` has other replicas,
    they are `described` as this one. An async context manager: leaving it closes the connections that it dialled
    itself."""

    def __init__(self, access: Access, first: Connection, described: ServerDescription | None = None):
        self.access = access
        self._described = described
        self._dialling = asyncio.Lock()
        self._dialled: set[CountedConnection] = set()
        self.current = CountedConnection(first)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for counted in list(self._dialled):
            await self._close(counted)

    def open_stream(self, counted: CountedConnection, session: str) -> GenerateStream:
        counted.streams += 1
        return counted.connection.generate(partial(self._stream_closed, counted), session)

    async def renew(self, broken: CountedConnection) -> CountedConnection:
        """A connection that is newer than one on which a stream broke: a new one, unless another stream found out
        before.

        No broken connection is used again, because gRPC waits long before it tries one again. Raises LinkError where
        the server refuses or its name is unknown; if nothing answers, it goes on until it is cancelled.
        """
        async with self._dialling:
            if self.current is broken:
                self.current = CountedConnection(await self._dial())
                self._dialled.add(self.current)
                await self._close_if_unused(broken)
            return self.current

    async def _dial(self) -> Connection:
        if self._described is None or not self.access.others:
            return await dial(self.access)
        self.access, connection = await dial_replica(self.access, self._described)
        return connection

    async def _stream_closed(self, counted: CountedConnection) -> None:
        counted.streams -= 1
        await self._close_if_unused(counted)

    async def _close_if_unused(self, counted: CountedConnection) -> None:
        if not counted.streams and counted is not self.current:
            await self._close(counted)

    async def _close(self, counted: CountedConnection) -> None:
        if counted in self._dialled:
            self._dialled.discard(counted)
            await counted.connection.close()


class ConversationStreams:
    """The streams of one conversation, whose session has that id, one after another."""

    def __init__(self, shared: SharedConnection, session: str):
        self._shared = shared
        self._session = session
        self._counted = shared.current

    def open(self) -> GenerateStream:
        """The first stream."""
        return self._shared.open_stream(self._counted, self._session)

    async def dial(self) -> GenerateStream:
        """The next stream; waits and raises as `SharedConnection.renew` does."""
        self._counted = await self._shared.renew(self._counted)
        return self._shared.open_stream(self._counted, self._session)
