"""The state of the link for the page and for /health: a round trip, the bytes that crossed it and the speed of answers.

Conversations report what they notice; while none is answered and a page is open, the server is probed now and then, and
once for each /health. Knows conversations and the shared connection; it may not know HTTP or text.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio

from client.conversation import Conversation
from client.link.link_state import LinkState
from client.link.reconnecting_stream import LinkListener, ignore_link_changes
from client.link.shared_connection import CountedConnection, SharedConnection
from client.stats import per
from common.clock import Clock
from common.protocol.errors import OutriderError
from common.protocol.response_time import ResponseTime
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic

_PROBE_INTERVAL_S = 2.0
_RETRY_INTERVAL_S = 0.5  # while probes fail
_LEAST_TIMEOUT_S, _UNKNOWN_TIMEOUT_S = 1.0, 2.0
_TIMEOUT_ROUND_TRIPS = 4.0  # of each step of a probe, once the round trip is known
_LONGEST_REFRESH_S = 2.5  # which keeps what /health says within three seconds of the truth, or says that it is not sure

Probe = Callable[[], Awaitable[float]]
"""Probes the server and returns the round trip in seconds. Raises OutriderError if no answer comes."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """`rtt_ms` and `tokens_per_second` are None if there was nothing to measure yet; the speed is the latest
    answer's."""

    link: LinkState
    rtt_ms: float | None
    tokens_per_second: float | None
    bytes_up: int
    bytes_down: int


class AnswerSpeed:
    """The speed of one answer, from its beginning on."""

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


class HealthProbe:
    """Probes a server by its health check on the shared connection, and on a new one if that is broken."""

    def __init__(self, shared_connection: SharedConnection, clock: Clock = time.perf_counter):
        self._shared_connection = shared_connection
        self._clock = clock
        self._trips = ResponseTime()
        self._broken: CountedConnection | None = None  # the last that gave no sign of life
        self._measured: CountedConnection | None = None  # the last that gave one

    async def __call__(self) -> float:
        """As `Probe`."""
        current = self._shared_connection.current
        try:
            if current is self._broken:
                current = await self._shared_connection.renew_within(current, self._timeout_s)
            if current is not self._measured:
                await self._checked_s(current)  # which sets up the connection
            trip_s = await self._checked_s(current)
        except TimeoutError as error:
            self._broken = current
            raise LinkError("the server gave no sign of life") from error
        except OutriderError:
            self._broken = current
            raise
        self._measured = current
        self._trips.observe(trip_s)
        return trip_s

    @property
    def _timeout_s(self) -> float:
        unknown_s = _UNKNOWN_TIMEOUT_S / _TIMEOUT_ROUND_TRIPS
        return max(_LEAST_TIMEOUT_S, _TIMEOUT_ROUND_TRIPS * self._trips.allowance(unknown=unknown_s))

    async def _checked_s(self, current: CountedConnection) -> float:
        """How long its check took. Raises TimeoutError where that is too long."""
        began = self._clock()
        async with asyncio.timeout(self._timeout_s):
            await current.connection.check()
        return self._clock() - began


class Monitor:
    """`is_busy` tells whether a conversation is answered over the link, which knows it better than a probe; `on_change`
    is called when the state has changed."""

    def __init__(
        self,
        state: LinkState,
        probe: Probe,
        is_busy: Callable[[], bool],
        on_change: LinkListener = ignore_link_changes,
        clock: Clock = time.perf_counter,
    ):
        self._state = state
        self._probe = probe
        self._is_busy = is_busy
        self._on_change = on_change
        self._clock = clock
        self._trip_s: float | None = None
        self._speed: AnswerSpeed | None = None
        self._open: set[Conversation] = set()
        self._closed = Traffic()
        self._watchers = 0
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()
        self._probed_at = clock()  # when the last probe ended, whatever came of it
        self._probing: asyncio.Task[None] | None = None

    @property
    def link(self) -> LinkState:
        return self._state

    def status(self) -> LinkStatus:
        traffic = self._closed
        for conversation in self._open:
            traffic = traffic.plus(conversation.traffic)
        is_there = self._trip_s is not None and self._state is LinkState.ONLINE
        return LinkStatus(
            self._state,
            self._trip_s * 1000 if is_there and self._trip_s is not None else None,
            None if self._speed is None else self._speed.tokens_per_second,
            traffic.up,
            traffic.down,
        )

    def link_changed(self, state: LinkState) -> None:
        """A conversation reports the state of the link."""
        if state is not self._state:
            self._state = state
            self._changed.set()
            self._changed = asyncio.Event()
            self._on_change(state)

    def begin(self) -> AnswerSpeed:
        """The speed of an answer that begins."""
        self._speed = AnswerSpeed(self._clock)
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
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While a page is open: the link is probed regularly."""
        self._watchers += 1
        if self._watchers == 1:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._watching.cancel()

    def probe_now(self) -> None:
        """The link may have changed: probes at once."""
        self._asked.set()

    async def refresh(self, max_age_s: float = _PROBE_INTERVAL_S) -> None:
        """Probes the link if the last probe is older than that; returns at once if it is watched anyway. Concurrent
        callers share one probe. A link whose probe takes too long is suspect."""
        if self._watchers or self._is_busy() or self._clock() - self._probed_at < max_age_s:
            return
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe_until_sure())
        done, _ = await asyncio.wait([self._probing], timeout=_LONGEST_REFRESH_S)
        for probe in done:
            probe.result()
        if not done and self._state is LinkState.ONLINE and not self._is_busy():
            self.link_changed(LinkState.SUSPECT)

    async def _probe_until_sure(self) -> None:
        await self._probe_once()
        if self._state is LinkState.SUSPECT and not self._is_busy():
            await self._probe_once()

    async def _probe_once(self) -> None:
        before = self._state  # of which `refresh` may think less while this probe is under way
        try:
            self._trip_s = await self._probe()
            noticed = LinkState.ONLINE
        except OutriderError:
            noticed = LinkState.SUSPECT if LinkState.ONLINE in (before, self._state) else LinkState.OFFLINE
        self._probed_at = self._clock()
        if not self._is_busy():
            self.link_changed(noticed)

    async def _watch(self) -> None:
        while True:
            self._asked.clear()
            await self._probe_once()
            pause = _PROBE_INTERVAL_S if self._state is LinkState.ONLINE else _RETRY_INTERVAL_S
            with anyio.move_on_after(pause):
                await self._asked.wait()
