"""A laptop's line to the server in virtual time: connections over one link that come, go and are made anew.

What is modelled beside `tcp`: a connection takes a round trip to be made, where an attempt that nobody answers is made
again, and another one until its server has greeted, for which gRPC waits; and a server hears that its client has given
a stream up only when the link carries the word. What an outage holds back comes when it ends, as everything on an
emulated link does, unless connections break where it begins. TLS is not modelled.

May know links, streams and the event loop's time. It may not know what is said.
"""

import asyncio
import math
from contextlib import suppress

from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.tcp import HEADER_BYTES, Flow, connect
from netem.virtual.wire import VirtualStream
from server.engine import Engine

_TRIED_AGAIN_S = 0.25
"""As `client.link.dial` tries."""

_SENT_AGAIN_S = 1.0
"""As a kernel sends a packet again on a connection whose round trips it does not know."""


class Line:
    """Needs a running loop; the link began with it."""

    def __init__(self, engine: Engine, profile: LinkProfile):
        self._engine = engine
        self._outages = profile.outages
        self._up, self._down = both_ways(profile)

    def stream(self) -> "_LineStream":
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


class BreakingLine(Line):
    """Connections break when an outage begins, those too that are being made. Clients know at once; the server does,
    or where it is told `late`, once the outage has ended."""

    def __init__(self, engine: Engine, profile: LinkProfile, *, late: bool):
        super().__init__(engine, profile)
        self._late = late

    def stream(self) -> "_LineStream":
        stream, loop = super().stream(), asyncio.get_running_loop()
        breaks_at = self._next_break()
        if breaks_at < math.inf:
            loop.call_at(breaks_at, stream.break_off, self._outages.resume_s(breaks_at) if self._late else breaks_at)
        return stream

    async def dial(self) -> VirtualStream:
        while True:
            breaks_at = self._next_break()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if breaks_at == math.inf else breaks_at):
                    return await super().dial()

    def _next_break(self) -> float:
        return self._outages.next_start_s(asyncio.get_running_loop().time())


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

    def break_off(self, known_at: float) -> None:
        """Nothing more is heard here; the server finds out at that time. What is under way is lost."""
        self._was_closed = True
        self._arrived.put_nowait(None)
        asyncio.get_running_loop().call_at(known_at, self._found_broken)

    def _found_broken(self) -> None:
        # As gRPC tells it: what the client says has ended, and then that it is gone.
        self._engine.half_close(self._far)
        super().close()
