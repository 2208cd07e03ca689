"""How long a connection may take to ask and to read, and how many there may be: strangers hold none of them for long.

Knows uvicorn's protocol and time, and nothing of what is asked. It may not know who may ask.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 160
BACKLOG = 16
"""Connections that the loop accepts in one turn, some turns before it can count them. With those that stand and our own
files they fit into 256 descriptors, macOS's default."""

_HEADERS_S = 10.0
_STALL_S = 60.0  # as streams are given up


class TimedConnection(H11Protocol):
    """Ends a connection whose request's headers do not come, or whose client does not read. A new one beyond the limit
    takes the place of the oldest that asks nothing."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._began_s = self.loop.time()
        self._headers_timer: asyncio.TimerHandle | None = self.loop.call_later(_HEADERS_S, self._end)
        self._stall_timer: asyncio.TimerHandle | None = None
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_timer = _cancelled(self._headers_timer)
        self._stall_timer = _cancelled(self._stall_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_asking:
            self._headers_timer = _cancelled(self._headers_timer)
        elif self._headers_timer is None:  # a further request has begun
            self._headers_timer = self.loop.call_later(_HEADERS_S, self._end)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(_STALL_S, self._end)

    def resume_writing(self) -> None:
        self._stall_timer = _cancelled(self._stall_timer)
        super().resume_writing()

    @property
    def _is_asking(self) -> bool:
        """Whether a request has come whose answer is not over."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def _is_ended(self) -> bool:
        return self.transport.is_closing()

    def _make_room(self) -> None:
        standing = [each for each in self.connections if isinstance(each, TimedConnection) and not each._is_ended]
        # The new one has not asked yet, so there is always one.
        min((each for each in standing if not each._is_asking), key=lambda each: each._began_s)._end()

    def _end(self) -> None:
        self.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
