"""Measures a link between namespaces with UDP, which has no congestion control. Blocking: run it in a thread.

Knows sockets and a clock, and no profile.
"""

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Self

from netem.links.namespaces.addresses import FAR, NEAR
from netem.links.namespaces.namespace_thread import NamespaceThread

HEADER_BYTES = 28  # of IPv4 and UDP
_LARGEST_PACKET_BYTES = 1500
_BITS_PER_BYTE = 8
_MS_PER_S = 1000.0
_NUMBER = struct.Struct("!Q")
_RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024
# Python has no name for it. The usual buffer would overflow while another process has the processor.
_SO_RCVBUFFORCE = 33
_TICK_S = 0.0005
_READ_BYTES = 2048


@dataclass(frozen=True)
class Arrivals:
    """sent, received: counts of packets. rate_bits_per_s: from the first arrival to the last, headers included."""

    sent: int
    received: int
    rate_bits_per_s: float


class Datagrams:
    """A pair of sockets, one in each namespace; `with` closes them."""

    def __init__(self, near: NamespaceThread, far: NamespaceThread) -> None:
        self._near = _bound(near, NEAR)
        self._far = _bound(far, FAR)
        self._near.connect(self._far.getsockname())
        self._far.connect(self._near.getsockname())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._near.close()
        self._far.close()

    def ping_ms(self, count: int, size_bytes: int, patience_s: float) -> list[float]:
        """The round-trip times of `count` packets of size_bytes, one at a time; lost packets are left out.

        patience_s: a packet that takes longer one way counts as lost.
        """
        times_ms = []
        for number in range(count):
            sent_s = time.perf_counter()
            self._near.send(_packet(number, size_bytes))
            if _wait_for(self._far, number, patience_s):
                self._far.send(_packet(number, size_bytes))
                if _wait_for(self._near, number, patience_s):
                    times_ms.append((time.perf_counter() - sent_s) * _MS_PER_S)
        return times_ms

    def flood(
        self, up: bool, rate_bits_per_s: float, seconds: float, drain_s: float, size_bytes: int = _LARGEST_PACKET_BYTES
    ) -> Arrivals:
        """Sends packets of size_bytes at this rate for `seconds`, then waits drain_s for the last ones to arrive."""
        source, sink = (self._near, self._far) if up else (self._far, self._near)
        payload = bytes(size_bytes - HEADER_BYTES)
        interval_s = size_bytes * _BITS_PER_BYTE / rate_bits_per_s
        began_s = now_s = time.perf_counter()
        first_s = last_s = 0.0
        sent = received = 0
        while now_s - began_s < seconds + drain_s:
            due = int(min(now_s - began_s, seconds) / interval_s)
            with contextlib.suppress(BlockingIOError):
                while sent < due:
                    source.send(payload)
                    sent += 1
            arrived = _drain(sink)
            if arrived:
                last_s = time.perf_counter()
                first_s = first_s or last_s
                received += arrived
            time.sleep(_TICK_S)
            now_s = time.perf_counter()
        span_s = last_s - first_s
        rate = (received - 1) * size_bytes * _BITS_PER_BYTE / span_s if span_s else 0.0
        return Arrivals(sent, received, rate)


def _bound(end: NamespaceThread, host: str) -> socket.socket:
    datagrams = end.socket(socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    datagrams.bind((host, 0))
    datagrams.setblocking(False)
    return datagrams


def _packet(number: int, size_bytes: int) -> bytes:
    return _NUMBER.pack(number).ljust(size_bytes - HEADER_BYTES, b"\0")


def _wait_for(sink: socket.socket, number: int, patience_s: float) -> bool:
    """Whether that packet arrives in time; late earlier packets are ignored."""
    give_up_s = time.perf_counter() + patience_s
    while (left_s := give_up_s - time.perf_counter()) > 0:
        select.select((sink,), (), (), left_s)
        with contextlib.suppress(BlockingIOError):
            if _NUMBER.unpack_from(sink.recv(_READ_BYTES))[0] == number:
                return True
    return False


def _drain(sink: socket.socket) -> int:
    arrived = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sink.recv(_READ_BYTES)
            arrived += 1
    return arrived
