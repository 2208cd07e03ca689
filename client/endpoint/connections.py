"""Limits on HTTP connections: how long one may take to send a request or to read, and how many there may be.

Knows uvicorn's protocol and time. It may not know requests, nor who may send them.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 160
BACKLOG = 16
"""Connections that the event loop accepts in one iteration, before it can count them. With the established ones and our
own files they fit into 256 descriptors, macOS's default."""

_HEADERS_TIMEOUT_S = 10.0
_STALL_S = 60.0  # as for streams


class TimedConnection(H11Protocol):
    """Closes a connection whose request headers do not come, or whose client does not read. A new one beyond the limit
    takes the place of the oldest idle one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._began_s = self.loop.time()
        self._headers, self._reading = _Deadline(self._end), _Deadline(self._end)
        self._headers.begin(_HEADERS_TIMEOUT_S)
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers.cancel()
        self._reading.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_active:
            self._headers.cancel()
        else:  # a further request has begun
            self._headers.begin(_HEADERS_TIMEOUT_S)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading.begin(_STALL_S)

    def resume_writing(self) -> None:
        self._reading.cancel()
        super().resume_writing()

    @property
    def _is_active(self) -> bool:
        """Whether a request has come whose answer is not over."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _make_room(self) -> None:
        established = [each for each in self.connections if isinstance(each, TimedConnection)]
        idle = [each for each in established if not each._is_active and not each.transport.is_closing()]
        # The new one is idle still, so there is always one.
        min(idle, key=lambda each: each._began_s)._end()

    def _end(self) -> None:
        self.transport.abort()


class _Deadline:
    """Calls `on_late` unless it is cancelled in time; `begin` does not extend a running deadline."""

    def __init__(self, on_late: Callable[[], None]):
        self._on_late = on_late
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_late)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
