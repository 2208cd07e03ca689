"""A laptop's line to the server in virtual time: connections over one link that come, go and are made anew.

What is modelled beside `tcp`: a connection takes a round trip to be made, where an attempt that nobody answers is made
again, and another one until its server has greeted, for which gRPC waits; and a server hears that its client has given
a stream up only when the link carries the word. What an outage holds back comes when it ends, as everything on an
emulated link does. TLS is not modelled.

May know links, streams and the event loop's time. It may not know what is said.
"""

import asyncio
from contextlib import suppress

from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.tcp import HEADER_BYTES, Flow, connect
from netem.virtual.wire import VirtualStream
from server.engine import Engine

_TRIED_AGAIN_S = 0.25
"""As `client.reach` tries."""

_SENT_AGAIN_S = 1.0
"""As a kernel sends a packet again on a connection whose round trips it does not know."""


class Line:
    """Needs a running loop; the link began with it."""

    def __init__(self, engine: Engine, profile: LinkProfile):
        self._engine = engine
        self._up, self._down = both_ways(profile)

    def stream(self) -> VirtualStream:
        """On a connection that stands already."""
        return _LineStream(self._engine, *connect(self._up, self._down))

    async def dial(self) -> VirtualStream:
        """On a new connection, however long that takes."""
        await self._round_trip(_TRIED_AGAIN_S)
        await self._round_trip(_SENT_AGAIN_S)
        return self.stream()

    async def _round_trip(self, again_s: float) -> None:
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()

        def answer() -> None:
            if (comes := self._down.send(HEADER_BYTES, loop.time())) is not None:
                loop.call_at(comes, answered.set)

        while not answered.is_set():
            if (comes := self._up.send(HEADER_BYTES, loop.time())) is not None:
                loop.call_at(comes, answer)
            with suppress(TimeoutError):
                async with asyncio.timeout(again_s):
                    await answered.wait()


class _LineStream(VirtualStream):
    def __init__(self, engine: Engine, up: Flow, down: Flow):
        super().__init__(engine, up, down)
        self._was_closed = False

    def close(self) -> None:
        """Nothing more is heard here; the server hears of it when the link carries the word."""
        if not self._was_closed:
            self._was_closed = True
            self._arrived.put_nowait(None)
            self._up.write(HEADER_BYTES, super().close)
