"""The one connection to a server that the streams of several conversations share, made anew once a stream on it broke.

It may not know sessions, drafting or what a stream carries.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from client.link.dial import reach
from client.link.stream import Access, QueuedStream
from common.rpc.stub import Connection


@dataclass(eq=False, slots=True)
class Line:
    """A connection and how many streams it carries."""

    connection: Connection
    streams: int = 0


class Trunk:
    """`first` carries streams until one of them breaks; whoever made it closes it. An async context manager: leaving it
    closes the connections that it made itself."""

    def __init__(self, access: Access, first: Connection):
        self._access = access
        self._dialling = asyncio.Lock()
        self._mine: set[Line] = set()
        self.line = Line(first)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in list(self._mine):
            await self._close(line)

    def open(self, line: Line) -> QueuedStream:
        line.streams += 1
        return QueuedStream(line.connection.generate, partial(self._ended, line))

    async def renew(self, broken: Line) -> Line:
        """A line that is newer than one on which a stream broke: a new one, unless another stream found out before.

        gRPC waits long before it tries a connection that broke again, so that none is used twice. Raises LinkError
        where the server refuses or its name is unknown; where nothing answers, it goes on until it is cancelled.
        """
        async with self._dialling:
            if self.line is broken:
                self.line = Line(await reach(self._access))
                self._mine.add(self.line)
                await self._close_if_unused(broken)
            return self.line

    async def _ended(self, line: Line) -> None:
        line.streams -= 1
        await self._close_if_unused(line)

    async def _close_if_unused(self, line: Line) -> None:
        if not line.streams and line is not self.line:
            await self._close(line)

    async def _close(self, line: Line) -> None:
        if line in self._mine:
            self._mine.discard(line)
            await line.connection.close()


class Branch:
    """The streams of one conversation, one after another."""

    def __init__(self, trunk: Trunk):
        self._trunk = trunk
        self._line = trunk.line

    def open(self) -> QueuedStream:
        """The first stream."""
        return self._trunk.open(self._line)

    async def dial(self) -> QueuedStream:
        """The next stream, as `Trunk.renew` has it."""
        self._line = await self._trunk.renew(self._line)
        return self._trunk.open(self._line)
