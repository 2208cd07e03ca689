"""Who is answered now, who waits, and which conversation goes on with whose text.

A conversation that holds most of a prompt already answers it with no more to read than is new. Knows conversations and
tokens; it may not know what is asked, nor HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from client.conversation import Conversation
from client.endpoint.faults import busy
from common.protocol.prefix import common_prefix

_IDLE_SECONDS = 300.0
"""After which a conversation that nobody goes on with gives its place on the server back."""

_RETRY_SECONDS = 5

Open = Callable[[], AbstractAsyncContextManager[Conversation]]


@dataclass(eq=False, slots=True)
class _Seat:
    conversation: Conversation
    stack: AsyncExitStack
    leaving: asyncio.TimerHandle | None = None


class Desk:
    """`seats` requests are answered at once, and `waiting` more wait for their turn. An async context manager."""

    def __init__(self, open_conversation: Open, seats: int, waiting: int):
        self._open_conversation = open_conversation
        self._seats = seats
        self._most_waiting = waiting
        self._free = asyncio.Semaphore(seats)
        self._idle: list[_Seat] = []  # longest unused first
        self._closing: set[asyncio.Task[None]] = set()
        self.waiting = 0
        self.answering = 0

    async def __aenter__(self) -> "Desk":
        return self

    async def __aexit__(self, *_: object) -> None:
        for seat in list(self._idle):
            await self._close(seat)
        await asyncio.gather(*self._closing)

    @asynccontextmanager
    async def conversation(self, tokens: Sequence[int], *, only_once: bool = False) -> AsyncIterator[Conversation]:
        """One to ask about `tokens`, for as long as the block lasts; `only_once` if nobody may go on with it.

        Raises FaultError where too many wait.
        """
        await self._wait()
        self.answering += 1
        try:
            seat = await self._seat(tokens, only_once=only_once)
            try:
                yield seat.conversation
            finally:
                if only_once or not seat.conversation.is_sound:
                    await asyncio.shield(self._close(seat))
                else:
                    self._leave_idle(seat)
        finally:
            self.answering -= 1
            self._free.release()

    async def _wait(self) -> None:
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise busy(_RETRY_SECONDS)
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    async def _seat(self, tokens: Sequence[int], *, only_once: bool) -> _Seat:
        if not only_once and (seat := self._best(tokens)) is not None:
            return seat
        if self._is_full:
            await self._close(self._idle[0])
        return await self._open()

    @property
    def _is_full(self) -> bool:
        return len(self._idle) + self.answering > self._seats

    def _best(self, tokens: Sequence[int]) -> _Seat | None:
        """One that holds most of the tokens; where no more may be opened, the longest unused."""

        def held(seat: _Seat) -> int:
            return common_prefix(seat.conversation.tokens, tokens)

        best = max(self._idle, key=held, default=None)
        if best is None or 2 * held(best) <= len(tokens):
            best = self._idle[0] if self._is_full else None
        if best is not None:
            self._take(best)
        return best

    async def _open(self) -> _Seat:
        stack = AsyncExitStack()
        return _Seat(await stack.enter_async_context(self._open_conversation()), stack)

    def _leave_idle(self, seat: _Seat) -> None:
        self._idle.append(seat)
        seat.leaving = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._expire, seat)

    def _expire(self, seat: _Seat) -> None:
        self._take(seat)
        closing = asyncio.get_running_loop().create_task(self._close(seat))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _take(self, seat: _Seat) -> None:
        if seat in self._idle:
            self._idle.remove(seat)
        if seat.leaving is not None:
            seat.leaving.cancel()
            seat.leaving = None

    async def _close(self, seat: _Seat) -> None:
        self._take(seat)
        await seat.stack.aclose()
