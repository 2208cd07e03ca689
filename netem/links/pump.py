"""Carries one direction of one TCP connection across the emulated link, packet by packet.

The thin layer between two sockets and the pure faults. The end of a stream crosses the link like bytes, in order and
delayed: a closed half closes the other side's half, a reset arrives as a reset. Knows nothing of the other direction.
"""

import asyncio
import enum
import socket
from collections.abc import Callable

from netem.links.stream import StreamWay

_PACKET_BYTES = 1500
_READ_BYTES = 16 * 1024
# What may wait at the transmitter: a modest router buffer, whatever the profile's queue. More would delay every message
# behind a large one, as TCP without pacing does.
_LONGEST_BACKLOG_S = 0.1
# What a receiver that stopped reading can leave on the link: about the largest TCP window that Linux offers.
_MOST_PACKETS_IN_FLIGHT = 4096


class SourceResetError(Exception):
    """The sender reset the connection, and the reset has crossed the link."""


class _SinkGoneError(Exception):
    """The receiver accepts nothing more."""


class _End(enum.Enum):
    CLOSED = enum.auto()
    RESET = enum.auto()


class Pump:
    """One direction of one connection; `run` it once."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        way: StreamWay,
        clock: Callable[[], float],
        on_delivered: Callable[[int], None],
        carries: asyncio.Event,
    ) -> None:
        """clock: seconds since the link began. on_delivered: called with the size in bytes of each delivered packet.
        carries: nothing enters the link while it is not set."""
        self.sink_is_gone = False
        self._source = source
        self._sink = sink
        self._way = way
        self._clock = clock
        self._on_delivered = on_delivered
        self._carries = carries
        self._in_flight: asyncio.Queue[tuple[float, bytes | _End]] = asyncio.Queue(_MOST_PACKETS_IN_FLIGHT)

    async def run(self) -> None:
        """Carry until the source has closed or the sink is gone.

        Raises SourceResetError, in an exception group, once a reset has crossed the link.
        """
        try:
            async with asyncio.TaskGroup() as halves:
                halves.create_task(self._admit())
                halves.create_task(self._deliver())
        except* _SinkGoneError:
            self.sink_is_gone = True

    async def _admit(self) -> None:
        received = await self._receive()
        while isinstance(received, bytes):
            arrival_s = self._clock()
            for start in range(0, len(received), _PACKET_BYTES):
                await self._enter_link(received[start : start + _PACKET_BYTES], arrival_s)
            await asyncio.sleep(max(0.0, self._way.backlog_s(self._clock()) - _LONGEST_BACKLOG_S))
            received = await self._receive()
        await self._enter_link(received, self._clock())

    async def _receive(self) -> bytes | _End:
        try:
            received: bytes | _End = await asyncio.get_running_loop().sock_recv(self._source, _READ_BYTES)
        except OSError:
            received = _End.RESET
        while not self._carries.is_set():
            await self._carries.wait()
        return received or _End.CLOSED

    async def _enter_link(self, packet: bytes | _End, arrival_s: float) -> None:
        size_bytes = len(packet) if isinstance(packet, bytes) else 0
        await self._in_flight.put((self._way.send(size_bytes, arrival_s), packet))

    async def _deliver(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            delivery_s, packet = await self._in_flight.get()
            early_s = delivery_s - self._clock()
            if early_s > 0:
                await asyncio.sleep(early_s)
            if packet is _End.RESET:
                raise SourceResetError
            try:
                if packet is _End.CLOSED:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                await loop.sock_sendall(self._sink, packet)
            except OSError as refusal:
                raise _SinkGoneError from refusal
            self._on_delivered(len(packet))
