"""The `proxy` backend: a TCP proxy whose connections cross an emulated link. Works on any system, without privilege.

TCP is terminated on both sides. The link therefore carries payload only: packet headers, acknowledgements and the
connection handshake cost nothing, and packet loss shows as stalls of one retransmission time (stream.py). All
connections share the rate of the one link; each has its own jitter. Knows nothing of what the connections carry.
"""

import asyncio
import socket
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.acceptor import Acceptor
from netem.links.destination import Destination
from netem.links.profile import LinkProfile
from netem.links.pump import Pump, SourceResetError
from netem.links.recorder import Recorder
from netem.links.stream import StreamLink
from netem.links.trace import Trace

_LOOPBACK = Address("127.0.0.1", 0)


class Proxy:
    """`async with Proxy(profile, target) as proxy` listens until the block ends, then drops its connections.

    bytes_up, bytes_down: payload bytes delivered so far to the target and to the clients. record: keep what `traces`
    returns, which takes memory for each packet.
    """

    def __init__(
        self, profile: LinkProfile, target: Address, listen: Address = _LOOPBACK, *, record: bool = False
    ) -> None:
        self.bytes_up = 0
        self.bytes_down = 0
        self._link = StreamLink(profile)
        self._destination = Destination(target)
        self._listen = listen
        self._recorders = (Recorder(), Recorder()) if record else None
        self._carries = asyncio.Event()
        self._carries.set()

    @property
    def address(self) -> Address:
        """Where clients connect to."""
        host, port = self._listener.getsockname()[:2]
        return Address(host, port)

    @property
    def port(self) -> int:
        return self.address.port

    async def __aenter__(self) -> Self:
        """Raises LinkFailureError where the address to listen on cannot be had."""
        self._listener = await sockets.listen(self._listen)
        self._began_s = asyncio.get_running_loop().time()
        self._acceptor = Acceptor(self._listener, self._carry)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._acceptor.end()

    def cut(self) -> None:
        """Lets nothing more enter the link, silently, and refuses new connections, until `restore`. What is on its way
        still arrives."""
        self._carries.clear()
        self._acceptor.pause()

    def restore(self) -> None:
        """Lets what waited enter the link, and what follows."""
        self._acceptor.resume()
        self._carries.set()

    async def _carry(self, client: socket.socket, connection: int) -> None:
        sockets.tune(client)
        server = await self._destination.connect()
        if server is None:
            return
        with server:
            if await self._ends_in_reset(client, server, connection):
                sockets.reset_on_close(client)
                sockets.reset_on_close(server)

    async def _ends_in_reset(self, client: socket.socket, server: socket.socket, connection: int) -> bool:
        way_up, way_down = self._link.connect(connection)
        up = Pump(client, server, way_up, self._clock, self._count_up, self._carries)
        down = Pump(server, client, way_down, self._clock, self._count_down, self._carries)
        was_reset = False
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(up.run())
                pumps.create_task(down.run())
        except* SourceResetError:
            was_reset = True
        return was_reset or up.sink_is_gone or down.sink_is_gone

    async def traces(self) -> tuple[Trace, Trace] | None:
        """What came out of the link so far, up and down; None where that is not recorded."""
        if self._recorders is None:
            return None
        up, down = self._recorders
        return up.trace(self._clock()), down.trace(self._clock())

    def _clock(self) -> float:
        """Seconds since the link began."""
        return asyncio.get_running_loop().time() - self._began_s

    def _count_up(self, size_bytes: int) -> None:
        self.bytes_up += size_bytes
        if self._recorders is not None:
            self._recorders[0].observe(size_bytes, self._clock())

    def _count_down(self, size_bytes: int) -> None:
        self.bytes_down += size_bytes
        if self._recorders is not None:
            self._recorders[1].observe(size_bytes, self._clock())
