"""How the link is, for whoever looks: its state, a round trip, what crossed it and how fast answers come.

Conversations tell what they notice; while nobody asks anything and somebody looks, a sign of life is asked for now and
then, and by whoever looks once. Knows conversations and the trunk; it may not know HTTP or text.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from client.conversation import Conversation
from client.link.link_state import LinkState
from client.link.shared_connection import Trunk
from client.stats import Clock, Traffic, per
from common.protocol.errors import OutriderError
from common.protocol.response_time import ResponseTime
from common.rpc.errors import LinkError

_BETWEEN_SIGNS = 2.0
_BETWEEN_TRIES = 0.5  # while there is none
_LEAST_PATIENCE, _UNKNOWN_PATIENCE = 1.0, 2.0
_TRIPS = 4.0  # of patience with a server whose round trip is known

Sign = Callable[[], Awaitable[float]]
"""Waits for a sign of life and returns the seconds of its round trip. Raises OutriderError where none comes."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`rtt_ms` and `tokens_per_second` are None where there was nothing to measure yet; the speed is the latest
    answer's."""

    link: LinkState
    rtt_ms: float | None
    tokens_per_second: float | None
    bytes_up: int
    bytes_down: int


class Speed:
    """Of one answer, from its beginning on."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._tokens = 0

    def committed(self, tokens: int) -> None:
        self._tokens += tokens

    def end(self) -> None:
        self._ended = self._clock()

    @property
    def tokens_per_second(self) -> float:
        return per(self._tokens, (self._clock() if self._ended is None else self._ended) - self._began)


class Signs:
    """Asks a server for signs of life on the connection that everybody uses, and on a new one where that is gone."""

    def __init__(self, trunk: Trunk, clock: Clock = time.perf_counter):
        self._trunk = trunk
        self._clock = clock
        self._trips = ResponseTime()
        self._is_broken = False

    async def __call__(self) -> float:
        """As `Sign` has it."""
        patience = max(_LEAST_PATIENCE, _TRIPS * self._trips.allowance(unknown=_UNKNOWN_PATIENCE / _TRIPS))
        line = self._trunk.line
        try:
            async with asyncio.timeout(patience):
                if self._is_broken:
                    line = await self._trunk.renew(line)
                    await line.connection.check()  # which has set up the connection
                began = self._clock()
                await line.connection.check()
        except TimeoutError as error:
            self._is_broken = True
            raise LinkError("the server gave no sign of life") from error
        except OutriderError:
            self._is_broken = True
            raise
        self._is_broken = False
        trip = self._clock() - began
        self._trips.observe(trip)
        return trip


class Monitor:
    """`is_busy` tells whether a conversation watches the link, which then knows better than a sign of life."""

    def __init__(self, state: LinkState, sign: Sign, is_busy: Callable[[], bool], clock: Clock = time.perf_counter):
        self._state = state
        self._sign = sign
        self._is_busy = is_busy
        self._clock = clock
        self._trip: float | None = None
        self._speed: Speed | None = None
        self._open: set[Conversation] = set()
        self._closed = Traffic()
        self._onlookers = 0
        self._changed = asyncio.Event()
        self._stirred = asyncio.Event()
        self._looked = clock()  # when a sign of life came, or did not, the last time
        self._looking: asyncio.Task[None] | None = None

    @property
    def link(self) -> LinkState:
        return self._state

    def read(self) -> Reading:
        traffic = self._closed
        for conversation in self._open:
            traffic = traffic.plus(conversation.traffic)
        is_there = self._trip is not None and self._state is LinkState.ONLINE
        return Reading(
            self._state,
            self._trip * 1000 if is_there and self._trip is not None else None,
            None if self._speed is None else self._speed.tokens_per_second,
            traffic.up,
            traffic.down,
        )

    def heard(self, state: LinkState) -> None:
        """A conversation has noticed how the link is."""
        if state is not self._state:
            self._state = state
            self._changed.set()
            self._changed = asyncio.Event()

    def begin(self) -> Speed:
        """Of an answer that begins."""
        self._speed = Speed(self._clock)
        return self._speed

    @asynccontextmanager
    async def counted(self, opened: AbstractAsyncContextManager[Conversation]) -> AsyncIterator[Conversation]:
        """The conversation, whose traffic counts from now on."""
        async with opened as conversation:
            self._open.add(conversation)
            try:
                yield conversation
            finally:
                self._open.discard(conversation)
                self._closed = self._closed.plus(conversation.traffic)

    async def changed(self, seconds: float) -> None:
        """Returns when the link has changed, at the latest after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Somebody looks on."""
        self._onlookers += 1
        if self._onlookers == 1:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._onlookers -= 1
            if not self._onlookers:
                self._watching.cancel()

    def stir(self) -> None:
        """The link may have changed: asks at once."""
        self._stirred.set()

    async def refresh(self) -> None:
        """Sees to it that `link` is how the link is now, or was a moment ago; returns at once where somebody watches
        it. However many ask, they wait for one and the same sign of life."""
        if self._onlookers or self._is_busy() or self._clock() - self._looked < _BETWEEN_SIGNS:
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_until_sure())
        await asyncio.shield(self._looking)

    async def _look_until_sure(self) -> None:
        await self._look()
        if self._state is LinkState.SUSPECT and not self._is_busy():
            await self._look()

    async def _look(self) -> None:
        try:
            self._trip = await self._sign()
            noticed = LinkState.ONLINE
        except OutriderError:
            noticed = LinkState.SUSPECT if self._state is LinkState.ONLINE else LinkState.OFFLINE
        self._looked = self._clock()
        if not self._is_busy():
            self.heard(noticed)

    async def _watch(self) -> None:
        while True:
            self._stirred.clear()
            await self._look()
            pause = _BETWEEN_SIGNS if self._state is LinkState.ONLINE else _BETWEEN_TRIES
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stirred.wait()
