"""Server-sent events to one HTTP client, who may leave, or stop reading, at any time.

Knows ASGI. It may not know what the events say.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

_STALL_S = 60.0
"""A client that does not read for so long is disconnected."""

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def event(data: Mapping[str, Any]) -> bytes:
    # In ASCII, because some clients end lines at U+2028 and its like too.
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def named_event(data: Mapping[str, Any]) -> bytes:
    """One whose name is its type."""
    return b"event: " + str(data["type"]).encode() + b"\n" + event(data)


DONE = b"data: [DONE]\n\n"


async def until_disconnected(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """`on_end` is called when the client reads no more, whatever the reason."""

    def __init__(
        self,
        events: AsyncIterator[bytes],
        on_end: Callable[[], object],
        headers: Mapping[str, str] | None = None,
        media_type: str = "text/event-stream",
    ):
        super().__init__(events, headers={**_HEADERS, **(headers or {})}, media_type=media_type)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            with anyio.fail_after(_STALL_S):
                await send(message)

        try:
            with suppress(TimeoutError, OSError, ClientDisconnect):
                # Without the version of ASGI: from 2.4 on starlette would not notice a client that leaves in a pause.
                await super().__call__({"type": "http"}, receive, send_in_time)
        finally:
            self._on_end()
