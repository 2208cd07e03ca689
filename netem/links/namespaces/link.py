"""A link between two namespaces that a client on the host can use: relays carry its connections into one and out of
the other.

Between the relays each connection is a TCP connection of the kernel's across the wire, so handshakes, loss and
congestion control are real; the host's loopback on both sides adds nothing but copies. Knows no emulation: what spoils
the packets is the wire's.
"""

import asyncio
import logging
import os
import socket
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.acceptance import Acceptance
from netem.links.namespaces.addresses import FAR
from netem.links.namespaces.congestion import check_congestion
from netem.links.namespaces.ends import End
from netem.links.namespaces.talk import Report
from netem.links.namespaces.wire import Wire
from netem.links.relay import relay
from netem.links.trace import Trace

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 128
_LOOPBACK = "127.0.0.1"


class NamespaceLink:
    """As Proxy: `async with` listens on `address` until the block ends, then drops its connections.

    bytes_up, bytes_down: payload bytes delivered so far to the target and to the clients. congestion: the TCP
    congestion control of both ends. near, far: the namespaces. server: where those in the near one find the target; on
    their loopback, so that what is plain text or certified for this machine may go there as on the host.
    """

    def __init__(self, wire: Wire, target: Address | None, listen: Address, congestion: str | None) -> None:
        """target: None for a link with nothing at its far end; nothing listens then. congestion: what the wire uses.

        Raises MisuseError for a congestion control that this machine lacks.
        """
        self.congestion = check_congestion(congestion)
        self.bytes_up = 0
        self.bytes_down = 0
        self._wire = wire
        self._target = target
        self._listen = listen
        self._acceptances: list[Acceptance] = []

    @property
    def address(self) -> Address:
        """Where clients on the host connect to."""
        host, port = self._listener.getsockname()[:2]
        return Address(host, port)

    @property
    def port(self) -> int:
        return self.address.port

    async def __aenter__(self) -> Self:
        """Raises LinkFailureError where this machine has no such link, or the address cannot be had."""
        if self._target is not None:
            self._listener = await sockets.listen(self._listen)
        try:
            joined = await self._wire.open()
        except BaseException:
            if self._target is not None:
                self._listener.close()
            raise
        self.near_namespace, self._far_namespace = joined.near, joined.far
        self.near, self.far = End(joined.near), End(joined.far)
        if self._target is not None:
            far_listener, near_listener = _listening(self.far, FAR), _listening(self.near, _LOOPBACK)
            self._far_address = far_listener.getsockname()
            self.server = Address(*near_listener.getsockname())
            self._acceptances = [
                Acceptance(self._listener, self._carry_in),
                Acceptance(near_listener, self._carry_in),
                Acceptance(far_listener, self._carry_out),
            ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for acceptance in self._acceptances:
            await acceptance.end()
        self.near.close()
        self.far.close()
        os.close(self.near_namespace)
        os.close(self._far_namespace)
        await self._wire.close()

    async def report(self) -> Report:
        """What the wire has carried so far, packet headers and acknowledgements included."""
        return await self._wire.report()

    async def traces(self) -> tuple[Trace, Trace] | None:
        """What came out of the link so far, up and down, where that is recorded."""
        report = await self._wire.report()
        if report.trace_up is None or report.trace_down is None:
            return None
        return report.trace_up, report.trace_down

    async def _carry_in(self, client: socket.socket, _: int) -> None:
        sockets.tune(client)
        with self.near.socket(socket.SOCK_STREAM) as crossing:
            sockets.tune_for_link(crossing)
            try:
                await asyncio.get_running_loop().sock_connect(crossing, self._far_address)
            except OSError as refusal:
                _LOGGER.warning("a connection did not cross the link (%s): try again", refusal.strerror)
                return
            await relay(client, crossing, _uncounted, self._count_down)

    async def _carry_out(self, crossing: socket.socket, _: int) -> None:
        assert self._target is not None
        sockets.tune_for_link(crossing)
        try:
            server = await sockets.connect(self._target)
        except OSError as refusal:
            _LOGGER.warning("cannot reach %s (%s): start the server there", self._target, refusal.strerror)
            return
        with server:
            await relay(crossing, server, self._count_up, _uncounted)

    def _count_up(self, size_bytes: int) -> None:
        self.bytes_up += size_bytes

    def _count_down(self, size_bytes: int) -> None:
        self.bytes_down += size_bytes


def _listening(end: End, host: str) -> socket.socket:
    listener = end.socket(socket.SOCK_STREAM)
    listener.setblocking(False)
    listener.bind((host, 0))
    listener.listen(_BACKLOG)
    return listener


def _uncounted(_: int) -> None:
    """The other relay of the connection counts these bytes."""
