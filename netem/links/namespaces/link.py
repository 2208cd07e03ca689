"""A link between two namespaces for clients on the host: relays carry connections into one namespace and out of the
other.

Between the relays each connection is a TCP connection of the kernel across the wire, so handshakes, loss and congestion
control are real; the host's loopback on both sides adds only copies. Knows no emulation: that is in the wire.
"""

import asyncio
import logging
import os
import socket
from typing import Self

from common.address import Address
from netem.links import sockets
from netem.links.acceptor import Acceptor
from netem.links.destination import Destination
from netem.links.errors import LinkFailureError
from netem.links.namespaces.addresses import FAR
from netem.links.namespaces.congestion import check_congestion
from netem.links.namespaces.messages import EmulatorReport
from netem.links.namespaces.namespace_thread import NamespaceThread
from netem.links.namespaces.wire import Wire
from netem.links.relay import relay
from netem.links.trace import Trace

_LOGGER = logging.getLogger(__name__)
_BACKLOG = 128
_LOOPBACK = "127.0.0.1"


class NamespaceLink:
    """`async with` listens on `address` until the block ends, then drops its connections.

    bytes_up, bytes_down: payload bytes delivered so far to the target and to the clients. congestion: the TCP
    congestion control of both ends. near, far: threads in the namespaces. server: the target's address for programs in
    the near namespace; it is on their loopback, so that plain text and certificates for localhost work as on the host.
    """

    def __init__(self, wire: Wire, target: Address | None, listen: Address, congestion: str | None) -> None:
        """target: None for a link without a server; nothing listens then. congestion: that of the wire; None for the
        system's.

        Raises MisuseError for a congestion control that this machine lacks.
        """
        self.congestion = check_congestion(congestion)
        self.bytes_up = 0
        self.bytes_down = 0
        self._wire = wire
        self._destination = None if target is None else Destination(target)
        self._listen = listen
        self._acceptors: list[Acceptor] = []

    @property
    def address(self) -> Address:
        """The address to which clients on the host connect."""
        host, port = self._listener.getsockname()[:2]
        return Address(host, port)

    @property
    def port(self) -> int:
        return self.address.port

    async def __aenter__(self) -> Self:
        """Raises LinkFailureError where this machine cannot make the link, or the address is not available."""
        if self._destination is not None:
            self._listener = await sockets.listen(self._listen)
        try:
            pair = await self._wire.open()
        except BaseException:
            if self._destination is not None:
                self._listener.close()
            raise
        self.near_namespace, self._far_namespace = pair.near, pair.far
        self.near, self.far = NamespaceThread(pair.near), NamespaceThread(pair.far)
        if self._destination is not None:
            try:
                far_listener, near_listener = _listening(self.far, FAR), _listening(self.near, _LOOPBACK)
            except OSError as refusal:
                self._listener.close()
                await self.__aexit__()
                raise LinkFailureError(f"nothing can listen within the link ({refusal.strerror})") from refusal
            self._far_address = far_listener.getsockname()
            self.server = Address(*near_listener.getsockname())
            self._acceptors = [
                Acceptor(self._listener, self._carry_in),
                Acceptor(near_listener, self._carry_in),
                Acceptor(far_listener, self._carry_out),
            ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for acceptor in self._acceptors:
            await acceptor.end()
        self.near.close()
        self.far.close()
        os.close(self.near_namespace)
        os.close(self._far_namespace)
        await self._wire.close()

    async def report(self) -> EmulatorReport:
        """The counters of the wire so far, packet headers and acknowledgements included."""
        return await self._wire.report()

    async def traces(self) -> tuple[Trace, Trace] | None:
        """What came out of the link so far, up and down; None where that is not recorded."""
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
        assert self._destination is not None
        sockets.tune_for_link(crossing)
        server = await self._destination.connect()
        if server is None:
            return
        with server:
            await relay(crossing, server, self._count_up, _uncounted)

    def _count_up(self, size_bytes: int) -> None:
        self.bytes_up += size_bytes

    def _count_down(self, size_bytes: int) -> None:
        self.bytes_down += size_bytes


def _listening(end: NamespaceThread, host: str) -> socket.socket:
    listener = end.socket(socket.SOCK_STREAM)
    listener.setblocking(False)
    listener.bind((host, 0))
    listener.listen(_BACKLOG)
    return listener


def _uncounted(_: int) -> None:
    """The other relay of the connection counts these bytes."""
