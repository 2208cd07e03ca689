"""The process that carries packets between the two namespaces of a link: `python -m netem.links.namespaces.emulator`.

A process of its own, so that no other work delays it, at real-time priority where the system allows it. It makes the
namespaces and sends their descriptors to its parent over the socket on standard input, carries packets, and obeys each
byte on that socket: it reports its counters, or cuts or restores the link. It ends when the parent closes the socket,
which the kernel does for a parent that dies. The faults are in way.py; here are only descriptors and the clock.
"""

import contextlib
import gc
import os
import select
import socket
import time
from collections import deque

from netem.links.namespaces import kernel
from netem.links.namespaces.addresses import DEVICE, FAR, MTU_BYTES, NEAR, NETMASK
from netem.links.namespaces.congestion import use_congestion
from netem.links.namespaces.messages import (
    CUT,
    REPORT,
    EmulatorReply,
    EmulatorReport,
    EmulatorRequest,
    PacketCounters,
    read_line,
)
from netem.links.namespaces.namespace_thread import new_namespace
from netem.links.recorder import Recorder
from netem.links.trace import Trace
from netem.links.way import Way, both_ways

# What the kernel may hold while this process is delayed; the queue of the link is in way.py.
_DEVICE_QUEUE_PACKETS = 10_000
# So many packets of one direction are read before the other has its turn.
_BATCH_PACKETS = 64
_LATE_S = 0.001
_IPV4 = 4


class Carrier:
    """One direction between two TUN devices."""

    def __init__(self, source: int, sink: int, way: Way, recorder: Recorder | None) -> None:
        self.source = source
        self.counters = PacketCounters()
        self.is_cut = False
        self._sink = sink
        self._way = way
        self._recorder = recorder
        self._on_its_way: deque[tuple[float, bytes]] = deque()

    def trace(self, ended_s: float) -> Trace | None:
        """What came out so far; None where that is not recorded."""
        return None if self._recorder is None else self._recorder.trace(ended_s)

    def take_in(self, began_s: float) -> None:
        """Reads the packets that have been sent, and computes when each is due."""
        for _ in range(_BATCH_PACKETS):
            try:
                packet = os.read(self.source, MTU_BYTES)
            except BlockingIOError:
                return
            # The kernel's own IPv6 messages do not cross the link.
            if packet[0] >> 4 != _IPV4:
                continue
            delivery_s = None if self.is_cut else self._way.send(len(packet), time.monotonic() - began_s)
            if delivery_s is None:
                self.counters.dropped += 1
            else:
                self._on_its_way.append((delivery_s, packet))

    def give_out(self, began_s: float) -> float:
        """Writes the packets that are due; returns in how many seconds the next one is, infinite where there is
        none."""
        while self._on_its_way:
            delivery_s, packet = self._on_its_way[0]
            now_s = time.monotonic() - began_s
            if delivery_s > now_s:
                return delivery_s - now_s
            self._on_its_way.popleft()
            try:
                os.write(self._sink, packet)
            except BlockingIOError:  # a receiver whose buffer is full loses the packet, as on any link
                self.counters.dropped += 1
                continue
            self.counters.packets += 1
            self.counters.bytes += len(packet)
            self.counters.late += now_s - delivery_s > _LATE_S
            if self._recorder is not None:
                self._recorder.observe(len(packet), now_s)
        return float("inf")


def emulate(parent: socket.socket, up: Carrier, down: Carrier) -> None:
    """Carries packets until the parent closes its socket."""
    began_s = time.monotonic()
    watched = [parent.fileno(), up.source, down.source]
    while True:
        pause_s = min(up.give_out(began_s), down.give_out(began_s))
        # select and not epoll: its timeout has microseconds.
        readable, _, _ = select.select(watched, (), (), None if pause_s == float("inf") else pause_s)
        for carrier in (up, down):
            if carrier.source in readable:
                carrier.take_in(began_s)
        if watched[0] in readable:
            asked = parent.recv(1)
            if not asked:
                return
            if asked != REPORT:
                up.is_cut = down.is_cut = asked == CUT
                continue
            ended_s = time.monotonic() - began_s
            parent.sendall(EmulatorReport(up.counters, down.counters, up.trace(ended_s), down.trace(ended_s)).to_line())


def main() -> None:
    """Makes the link that the parent requests, and carries its packets."""
    parent = socket.socket(fileno=0)
    request = EmulatorRequest.from_line(read_line(parent))
    try:
        near = new_namespace()
        near_device = _open_device(NEAR, request.congestion)
        far = new_namespace()
        far_device = _open_device(FAR, request.congestion)
    except OSError as refusal:
        parent.sendall(EmulatorReply(error=str(refusal.strerror)).to_line())
        return
    socket.send_fds(parent, [EmulatorReply().to_line()], [near, far])
    os.close(near)
    os.close(far)
    # Without the privilege the emulation is less precise; the counters of late packets show by how much, but for the
    # time in which packets wait to be read, which nothing tells.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    # Nothing here makes reference cycles, and a collection would delay packets.
    gc.disable()
    way_up, way_down = both_ways(request.profile)
    emulate(
        parent,
        Carrier(near_device, far_device, way_up, Recorder() if request.record else None),
        Carrier(far_device, near_device, way_down, Recorder() if request.record else None),
    )


def _open_device(host: str, congestion: str | None) -> int:
    device = kernel.open_tun(DEVICE)
    kernel.configure(DEVICE, host, NETMASK, MTU_BYTES, _DEVICE_QUEUE_PACKETS)
    if congestion is not None:
        use_congestion(congestion)
    return device


if __name__ == "__main__":
    # A parent that has ended needs no reply.
    with contextlib.suppress(ConnectionError):
        main()
