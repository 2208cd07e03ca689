"""The queue of messages for one client's stream; tokens go before draft state. It may not know sessions or gRPC."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from common.protocol.messages import Failed, FailureCode, FromServer, State
from common.protocol.state_window import MAX_WINDOW_BYTES

MAX_WAITING = 4096
"""Messages. Run-ahead keeps a client that reads far below; one that does not read is cut off."""

MAX_WAITING_STATE = 4 * MAX_WINDOW_BYTES
"""Bytes of draft state. The window sends less than this to a client that acknowledges what it reads."""


class OutgoingQueue:
    """The engine puts messages in, the servicer takes them out."""

    def __init__(self, client: str = "", on_end: Callable[[], object] = lambda: None) -> None:
        """`client` is the name of the token that the stream bears; `on_end` is called once, when the stream ends."""
        self.client = client
        self._on_end = on_end
        self._waiting: deque[FromServer] = deque()
        self._states: deque[State] = deque()  # sent after everything else, and of no use once the stream has ended
        self._state_bytes = 0
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._ended

    def put(self, message: FromServer) -> None:
        """After the end messages are dropped."""
        if self._ended:
            return
        if len(self._waiting) + len(self._states) == MAX_WAITING or self._state_bytes > MAX_WAITING_STATE:
            self._waiting.clear()
            message = Failed(FailureCode.OVERLOADED, "the client does not read its answer")
            self._end()
        if isinstance(message, State):
            self._states.append(message)
            self._state_bytes += len(message.payload)
        else:
            self._waiting.append(message)
        self._changed.set()

    def end(self) -> None:
        """Waiting messages are still sent; no more are accepted."""
        self._end()
        self._changed.set()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end()

    async def __aiter__(self) -> AsyncIterator[FromServer]:
        while self._waiting or not self._ended:
            if self._waiting:
                yield self._waiting.popleft()
            elif self._states:
                state = self._states.popleft()
                self._state_bytes -= len(state.payload)
                yield state
            else:
                self._changed.clear()
                await self._changed.wait()
