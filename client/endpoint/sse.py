"""Server-sent events to one HTTP client, who may go away, or stop reading, at any time.

Knows ASGI. It may not know what the events say.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from client.first_of import first_of

_STALLED_SECONDS = 60.0
"""After which a client that does not read is given up."""


def event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def until_gone(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """An ASGI response. `ended` is called when nobody reads any more, whatever the reason."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], object]):
        self._events = events
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._start(send)
            with suppress(TimeoutError, OSError):
                await first_of(self._write(send), until_gone(receive))
        finally:
            self._ended()

    @staticmethod
    async def _start(send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _write(self, send: Send) -> None:
        async for each in self._events:
            async with asyncio.timeout(_STALLED_SECONDS):
                await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
