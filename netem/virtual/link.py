"""One emulated link in virtual time, with connections that end and are dialled again.

Modelled beside `tcp`: a connection takes a round trip for its handshake, which is retried where it is not answered, and
another round trip for the server's greeting, for which gRPC waits; and the server learns that its client has closed a
stream only when the link carries the message. What is sent in an outage is delivered when it ends, unless connections
break at its beginning. TLS is not modelled.

May know links, streams and the event loop's time. It may not know the content of messages.
"""

import asyncio
import math
from contextlib import suppress

from netem.links.profile import LinkProfile
from netem.links.way import both_ways
from netem.virtual.stream import VirtualStream
from netem.virtual.tcp import HEADER_BYTES, Flow, connect
from server.engine import Engine

_REDIAL_S = 0.25
"""The interval at which `client.link.dial` begins another attempt."""

_FIRST_RETRANSMISSION_S = 1.0
"""The kernel's retransmission timeout on a connection whose round-trip time it has not measured (RFC 6298)."""


class VirtualLink:
    """Needs a running loop. The link begins at the loop's time 0, and connections share it."""

    def __init__(self, engine: Engine, profile: LinkProfile):
        self._engine = engine
        self._outages = profile.outages
        self._up, self._down = both_ways(profile)

    def stream(self) -> "_LinkStream":
        """A stream on a connection that is already established."""
        return _LinkStream(self._engine, *connect(self._up, self._down))

    async def dial(self) -> VirtualStream:
        """A stream on a new connection, once that is established."""
        await self._round_trip(_REDIAL_S)
        await self._round_trip(_FIRST_RETRANSMISSION_S)
        return self.stream()

    async def _round_trip(self, retry_s: float) -> None:
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()

        def answer() -> None:
            if (arrival_s := self._down.send(HEADER_BYTES, loop.time())) is not None:
                loop.call_at(arrival_s, answered.set)

        while not answered.is_set():
            if (arrival_s := self._up.send(HEADER_BYTES, loop.time())) is not None:
                loop.call_at(arrival_s, answer)
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_s):
                    await answered.wait()


class BreakingLink(VirtualLink):
    """Connections break when an outage begins, those that are being established too. Clients know at once; the server
    knows at once too, or with `late` when the outage has ended."""

    def __init__(self, engine: Engine, profile: LinkProfile, *, late: bool):
        super().__init__(engine, profile)
        self._late = late

    def stream(self) -> "_LinkStream":
        stream, loop = super().stream(), asyncio.get_running_loop()
        breaks_at_s = self._next_break()
        if breaks_at_s < math.inf:
            loop.call_at(
                breaks_at_s, stream.break_off, self._outages.resume_s(breaks_at_s) if self._late else breaks_at_s
            )
        return stream

    async def dial(self) -> VirtualStream:
        while True:
            breaks_at_s = self._next_break()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if breaks_at_s == math.inf else breaks_at_s):
                    return await super().dial()

    def _next_break(self) -> float:
        return self._outages.next_start_s(asyncio.get_running_loop().time())


class _LinkStream(VirtualStream):
    def __init__(self, engine: Engine, up: Flow, down: Flow):
        super().__init__(engine, up, down)
        self._was_closed = False

    def close(self) -> None:
        """Receives nothing more; the server learns of it when the link carries the message."""
        if not self._was_closed:
            self._was_closed = True
            self._arrived.put_nowait(None)
            self._write_up(HEADER_BYTES, super().close)

    def break_off(self, server_knows_at_s: float) -> None:
        """Receives nothing more; the server learns of it at that time. What the client has sent before still arrives
        until then."""
        self._was_closed = True
        self._arrived.put_nowait(None)
        asyncio.get_running_loop().call_at(server_knows_at_s, self._found_broken)

    def _found_broken(self) -> None:
        # As gRPC reports it: the end of the client's messages first, then the end of the call.
        self._engine.half_close(self._far)
        super().close()
