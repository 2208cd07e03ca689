"""A TCP proxy that makes every connection through it cross an emulated link. Any system, no privilege.

TCP is terminated on both sides. The link therefore carries payload only: packet headers, acknowledgements and the
connection handshake cost nothing, and packet loss cannot be emulated here. All connections share the rate of the
one link; each has its own jitter. Knows neither what it carries nor who asked for it.
"""

import asyncio
import contextlib
import logging
import socket
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.delay import DelayLine, jitter_draws
from netem.links.profile import LinkProfile
from netem.links.pump import Pump, SourceResetError
from netem.links.rate import LineRate

_LOGGER = logging.getLogger(__name__)
_LOOPBACK = Address("127.0.0.1", 0)
_PAUSE_WHEN_OUT_OF_SOCKETS_S = 0.1


class Proxy:
    """`async with Proxy(profile, target) as proxy` listens until the block ends, then drops its connections.

    bytes_up, bytes_down: payload bytes delivered so far to the target and to the clients.
    """

    def __init__(self, profile: LinkProfile, target: Address, listen: Address = _LOOPBACK) -> None:
        self.bytes_up = 0
        self.bytes_down = 0
        self._profile = profile
        self._target = target
        self._listen = listen
        self._rate_up = LineRate(profile.up.rate_bits_per_s)
        self._rate_down = LineRate(profile.down.rate_bits_per_s)
        self._connections: set[asyncio.Task[None]] = set()

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
        self._acceptance = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        running = {self._acceptance, *self._connections}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        accepted = 0
        while True:
            try:
                client = await sockets.accept(self._listener)
            except OSError as refusal:
                _LOGGER.warning("cannot accept a connection (%s): close some and it goes on", refusal.strerror)
                await asyncio.sleep(_PAUSE_WHEN_OUT_OF_SOCKETS_S)
                continue
            connection = asyncio.create_task(self._carry(client, accepted))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)
            accepted += 1

    async def _carry(self, client: socket.socket, connection: int) -> None:
        with contextlib.closing(client):
            try:
                server = await sockets.connect(self._target)
            except OSError as refusal:
                _LOGGER.warning("cannot reach %s (%s): start the server there", self._target, refusal.strerror)
                return
            with contextlib.closing(server):
                if await self._ends_in_reset(client, server, connection):
                    sockets.reset_on_close(client)
                    sockets.reset_on_close(server)

    async def _ends_in_reset(self, client: socket.socket, server: socket.socket, connection: int) -> bool:
        profile = self._profile
        delay_up = DelayLine(profile.up, jitter_draws(profile.seed, connection, "up"))
        delay_down = DelayLine(profile.down, jitter_draws(profile.seed, connection, "down"))
        up = Pump(client, server, self._rate_up, delay_up, self._count_up)
        down = Pump(server, client, self._rate_down, delay_down, self._count_down)
        was_reset = False
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(up.run())
                pumps.create_task(down.run())
        except* SourceResetError:
            was_reset = True
        return was_reset or up.sink_is_gone or down.sink_is_gone

    def _count_up(self, size_bytes: int) -> None:
        self.bytes_up += size_bytes

    def _count_down(self, size_bytes: int) -> None:
        self.bytes_down += size_bytes
