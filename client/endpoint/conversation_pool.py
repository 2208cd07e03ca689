"""A pool of conversations: which requests are answered now, which wait, and which conversation answers which prompt.

A conversation that already holds most of a prompt has only the rest of it to process. Knows conversations and tokens,
and of models their names; it may not know requests or HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from client.conversation import Conversation
from client.endpoint.faults import busy
from common.protocol.prefix import common_prefix

_IDLE_S = 300.0
"""After so long an idle conversation is closed, which frees its room on the server."""

_RETRY_S = 5

Open = Callable[[str], AbstractAsyncContextManager[Conversation]]
"""Opens a conversation with the model of that name."""


@dataclass(eq=False, slots=True)
class _PooledConversation:
    model: str
    conversation: Conversation
    stack: AsyncExitStack
    expiry: asyncio.TimerHandle | None = None


class ConversationPool:
    """`slots` requests are answered at once, at most `waiting` more wait their turn, whatever their models. An async
    context manager."""

    def __init__(self, open_conversation: Open, slots: int, waiting: int):
        self._open_conversation = open_conversation
        self._slots = slots
        self._most_waiting = waiting
        self._free = asyncio.Semaphore(slots)
        self._idle: list[_PooledConversation] = []  # longest unused first
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.waiting = 0
        self.answering = 0
        self.answering_alone = 0  # of these, on conversations that are used once, as private ones are

    async def __aenter__(self) -> "ConversationPool":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        for pooled in list(self._idle):
            await self._close(pooled)
        await asyncio.gather(*self._closing)

    @asynccontextmanager
    async def conversation(
        self, model: str, tokens: Sequence[int], *, only_once: bool = False
    ) -> AsyncIterator[Conversation]:
        """One to ask that model about `tokens`, for as long as the block lasts; `only_once` if it is not to be used
        again.

        Raises FaultError if too many wait.
        """
        await self._wait()
        self.answering += 1
        self.answering_alone += only_once
        try:
            pooled = await self._take_or_open(model, tokens, only_once=only_once)
            try:
                yield pooled.conversation
            finally:
                if only_once or self._is_closed or not pooled.conversation.is_sound:
                    await asyncio.shield(self._close(pooled))
                else:
                    self._return(pooled)
        finally:
            self.answering -= 1
            self.answering_alone -= only_once
            self._free.release()

    async def _wait(self) -> None:
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise busy(_RETRY_S)
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    async def _take_or_open(self, model: str, tokens: Sequence[int], *, only_once: bool) -> _PooledConversation:
        if not only_once and (pooled := self._best_match(model, tokens)) is not None:
            return pooled
        if self._is_full:
            await self._close(self._idle[0])
        return await self._open(model)

    @property
    def _is_full(self) -> bool:
        return len(self._idle) + self.answering > self._slots

    def _best_match(self, model: str, tokens: Sequence[int]) -> _PooledConversation | None:
        """The model's one that holds most of the tokens; if no more may be opened, its longest unused."""

        def held(pooled: _PooledConversation) -> int:
            return common_prefix(pooled.conversation.tokens, tokens)

        own = [pooled for pooled in self._idle if pooled.model == model]
        best = max(own, key=held, default=None)
        if best is None or 2 * held(best) <= len(tokens):
            best = own[0] if own and self._is_full else None
        if best is not None:
            self._take(best)
        return best

    async def _open(self, model: str) -> _PooledConversation:
        stack = AsyncExitStack()
        return _PooledConversation(model, await stack.enter_async_context(self._open_conversation(model)), stack)

    def _return(self, pooled: _PooledConversation) -> None:
        self._idle.append(pooled)
        pooled.expiry = asyncio.get_running_loop().call_later(_IDLE_S, self._expire, pooled)

    def _expire(self, pooled: _PooledConversation) -> None:
        self._take(pooled)
        closing = asyncio.get_running_loop().create_task(self._close(pooled))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _take(self, pooled: _PooledConversation) -> None:
        if pooled in self._idle:
            self._idle.remove(pooled)
        if pooled.expiry is not None:
            pooled.expiry.cancel()
            pooled.expiry = None

    async def _close(self, pooled: _PooledConversation) -> None:
        self._take(pooled)
        await pooled.stack.aclose()
