"""One TCP connection over an emulated link in virtual time: two byte streams, in order, lost packets sent again.

What is modelled: segments with their headers, the acknowledgements that they cause on the way back, the wait for a
retransmission (about one round trip and a little, as with RACK and tail-loss probes) during which what came later
waits at the receiver, and a send buffer that holds back its writer. What is not: congestion windows. A session's
frames are small and spread over time, and its draft state is windowed by the session itself.

May know links and the event loop's time. It may not know frames or sessions.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from netem.links.way import Way

MSS_BYTES = 1448
HEADER_BYTES = 52  # IPv4 and TCP with timestamps
_DELAYED_ACK_S = 0.04
_SEND_BUFFER_BYTES = 64 * 1024
_RETRANSMISSION = 1.25  # smoothed round trips until a loss is known and repaired
_LEAST_RETRANSMISSION_S = 0.01
_UNKNOWN_S = 0.5
_GAIN = 1 / 8

Arrived = Callable[[], None]


@dataclass(slots=True)
class _Segment:
    size_bytes: int
    arrived: Arrived
    has_come: bool = False


class Flow:
    """One direction. `write` sends bytes; what it is given is called once all of them, and all before, have come."""

    def __init__(self, way: Way, travel: float):
        """`travel`: seconds that the handshake took this way."""
        self._way = way
        self._loop = asyncio.get_running_loop()
        self._unacknowledged = 0
        self._waiting: deque[_Segment] = deque()  # in order
        self._travel = travel
        self._ack_due: asyncio.TimerHandle | None = None
        self._unacked_segments = 0
        self._relieved = asyncio.Event()
        self.reverse: Flow

    async def writable(self) -> None:
        """Returns once the send buffer has room."""
        while self._unacknowledged >= _SEND_BUFFER_BYTES:
            self._relieved.clear()
            await self._relieved.wait()

    def write(self, size_bytes: int, arrived: Arrived) -> None:
        while size_bytes > MSS_BYTES:
            self._send(MSS_BYTES, _nothing)
            size_bytes -= MSS_BYTES
        self._send(size_bytes, arrived)

    def _send(self, size_bytes: int, arrived: Arrived) -> None:
        self._unacknowledged += size_bytes
        segment = _Segment(size_bytes, arrived)
        self._waiting.append(segment)
        # Data carries the acknowledgement of what came the other way.
        self.reverse._acknowledged_by_data()
        self._transmit(segment)

    def _transmit(self, segment: _Segment, again: bool = False) -> None:
        now = self._loop.time()
        comes = self._way.send(segment.size_bytes + HEADER_BYTES, now)
        if comes is None:
            repair = max(_LEAST_RETRANSMISSION_S, _RETRANSMISSION * (self._travel + self.reverse._travel))
            self._loop.call_at(now + repair, self._transmit, segment, True)
            return
        if not again:  # Karn and Partridge 1987
            self._travel += _GAIN * (comes - now - self._travel)
        self._loop.call_at(comes, self._come, segment)

    def _come(self, segment: _Segment) -> None:
        segment.has_come = True
        self._unacknowledged -= segment.size_bytes
        self._relieved.set()
        self._unacked_segments += 1
        if self._unacked_segments >= 2:
            self._acknowledge()
        elif self._ack_due is None:
            self._ack_due = self._loop.call_later(_DELAYED_ACK_S, self._acknowledge)
        while self._waiting and self._waiting[0].has_come:
            self._waiting.popleft().arrived()

    def _acknowledge(self) -> None:
        """A segment without data goes back; when it comes does not matter, that it takes part in the traffic does."""
        self._acknowledged_by_data()
        self.reverse._way.send(HEADER_BYTES, self._loop.time())

    def _acknowledged_by_data(self) -> None:
        self._unacked_segments = 0
        if self._ack_due is not None:
            self._ack_due.cancel()
            self._ack_due = None


def connect(up: Way, down: Way) -> tuple[Flow, Flow]:
    """Both directions of a connection. Needs a running loop, whose time the ways are sent at."""
    now = asyncio.get_running_loop().time()
    handshake = (way.send(HEADER_BYTES, now) for way in (up, down))
    travels = [_UNKNOWN_S if there is None else there - now for there in handshake]
    flows = Flow(up, travels[0]), Flow(down, travels[1])
    flows[0].reverse, flows[1].reverse = flows[1], flows[0]
    return flows


def _nothing() -> None:
    """No frame ends with this segment."""
