"""One connection to a server that the streams of several conversations share, replaced once a stream on it broke; a
conversation whose replica is full leaves it for one to another replica.

It may not know sessions, drafting or what a stream carries.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from client.link.dial import dial
from client.link.replicas import Replica, choose_other, describe, dial_replica, with_list
from client.link.stream import Access
from common.address import Address
from common.protocol.errors import OutriderError
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection, GenerateStream

_LIST_INTERVAL_S = 30.0
"""From one question for the list of replicas to the next, while there are streams: well below the time in which a
rolling update replaces all."""

_ASK_S = 4.0

_LONGEST_DIAL_S = 20.0
"""Of a connection that is dialled on although nobody waits for it."""

_LEAST_FULL_S = 2.0
"""So long a full replica is not tried again, if it did not say for how long."""

_MOST_FULL = 3
"""A session tries so many replicas at a time: if all are full, trying each would only add to their load."""


@dataclass(eq=False, slots=True)
class CountedConnection:
    """A connection and how many streams it carries."""

    connection: Connection
    streams: int = 0


StreamListener = Callable[[Address], object]


def ignore_streams(address: Address) -> None:
    """A listener for callers to whom it does not matter where streams lead."""


class SharedConnection:
    """`first` carries streams until one of them breaks; whoever made it closes it. Where `access` has other replicas,
    they are `described` as this one, and their list is kept up to date. `listener` is called with the address of each
    stream, also of those to a replica that one conversation alone has moved to. An async context manager: leaving it
    closes the connections that it dialled itself."""

    def __init__(
        self,
        access: Access,
        first: Connection,
        described: ServerDescription | None = None,
        listener: StreamListener = ignore_streams,
    ):
        self.access = access
        self._described = described
        self._listener = listener
        self._dialling = asyncio.Lock()
        self._dialled: set[CountedConnection] = set()
        self._renewed = asyncio.Event()
        self._listing: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[CountedConnection] | None = None
        self._first = self.current = CountedConnection(first)

    @property
    def is_renewed(self) -> bool:
        """Whether another connection stood since the first, where the server was not reached by that."""
        return self.current is not self._first

    async def __aenter__(self) -> Self:
        if self._described is not None and self.access.trusts_lists:
            self._listing = asyncio.create_task(self._follow_list(self._described.model))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (self._listing, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for counted in list(self._dialled):
            await self._close(counted)

    def open_stream(self, counted: CountedConnection, session: str) -> GenerateStream:
        counted.streams += 1
        self._listener(self.access.address)
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
                self._renewed.set()
                await self._close_if_unused(broken)
            return self.current

    async def renew_within(self, broken: CountedConnection, seconds: float) -> CountedConnection:
        """As `renew`, but raises TimeoutError after so long. It is dialled on then, for who comes next."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(asyncio.wait_for(self.renew(broken), _LONGEST_DIAL_S))
            self._renewing.add_done_callback(_mark_seen)
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._renewing)

    async def choose_other(self, full: Collection[Address]) -> Replica | None:
        """Another replica, which is none of the `full` ones; None if none answers."""
        return None if self._described is None else await choose_other(self.access, self._described, full)

    def of_replica(self, replica: Replica) -> "SharedConnection":
        """The same to another replica, which whoever chose it closes."""
        return SharedConnection(replica.access, replica.connection, self._described, self._listener)

    async def _follow_list(self, model: str) -> None:
        """Asks for the list of replicas while there are streams, and after each failure. Runs until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LIST_INTERVAL_S):
                    await self._renewed.wait()
            if self.current.streams or self._renewed.is_set():
                self._renewed.clear()
                with suppress(OutriderError):  # streams find out by themselves
                    described = await describe(self.current.connection, _ASK_S, model)
                    self.access = with_list(self.access, described.replicas)

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


def _mark_seen(renewing: asyncio.Task[CountedConnection]) -> None:
    """asyncio would log an error that nobody waited for."""
    if not renewing.cancelled():
        renewing.exception()


class ConversationStreams:
    """The streams of one conversation, whose session has that id, one after another. An async context manager: leaving
    it closes the connection to a replica that this conversation alone has moved to."""

    def __init__(self, shared: SharedConnection, session: str):
        self._shared = shared
        self._session = session
        self._counted = shared.current
        self._full_until: dict[Address, float] = {}
        self._moved = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._moved.aclose()

    @property
    def address(self) -> Address:
        """Of this session's replica."""
        return self._shared.access.address

    def open(self) -> GenerateStream:
        """The first stream."""
        return self._shared.open_stream(self._counted, self._session)

    async def dial(self) -> GenerateStream:
        """The next stream; waits and raises as `SharedConnection.renew` does."""
        self._counted = await self._shared.renew(self._counted)
        return self._shared.open_stream(self._counted, self._session)

    async def leave_full(self, seconds: float) -> bool:
        """This session's replica is full for so many seconds. Returns whether another was found, where the next stream
        is dialled from now on; the other conversations stay."""
        now_s = asyncio.get_running_loop().time()
        self._full_until = {each: until_s for each, until_s in self._full_until.items() if until_s > now_s}
        self._full_until[self.address] = now_s + max(seconds, _LEAST_FULL_S)
        if len(self._full_until) >= _MOST_FULL:
            return False
        replica = await self._shared.choose_other(self._full_until.keys())
        if replica is None:
            return False
        left = self._moved.pop_all()
        self._moved.push_async_callback(replica.connection.close)
        self._shared = await self._moved.enter_async_context(self._shared.of_replica(replica))
        await left.aclose()
        return True
