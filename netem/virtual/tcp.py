"""One TCP connection over an emulated link in virtual time: two byte streams in order, with retransmission.

Modelled: segments with their headers, their acknowledgements on the way back, the wait for a retransmission (a little
more than one round trip, as with RACK and tail-loss probes, RFC 8985) during which later segments wait at the receiver,
and a send buffer that blocks its writer. Not modelled: congestion windows. A session's frames are small and spread over
time, and the session limits its draft state itself.

Simpler than TCP, in two places. The send buffer empties when data arrive and not when their acknowledgement is back,
half a round trip later. And data that an outage held back count for the smoothed travel time: over a connection that
survived it, a lost segment may wait as long as the outage lasted until it is sent again; later data bring the time
down.

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
_RETRANSMISSION = 1.25  # smoothed round trips until a lost segment is sent again
_LEAST_RETRANSMISSION_S = 0.01
_UNKNOWN_TRAVEL_S = 0.5  # where the handshake's packet was lost
_GAIN = 1 / 8  # of the smoothed travel time (RFC 6298)

Arrived = Callable[[], None]


@dataclass(slots=True)
class _Segment:
    size_bytes: int
    arrived: Arrived
    has_come: bool = False


class Flow:
    """One direction. `write` sends bytes; its callback is called once they and all earlier ones have arrived."""

    def __init__(self, way: Way, travel_s: float):
        """travel_s: what the handshake's packet took this way."""
        self._way = way
        self._loop = asyncio.get_running_loop()
        self._unacknowledged = 0
        self._waiting: deque[_Segment] = deque()  # in order
        self._travel_s = travel_s
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
        """Sends segments; `arrived` is called with the arrival of the last one."""
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
        now_s = self._loop.time()
        arrival_s = self._way.send(segment.size_bytes + HEADER_BYTES, now_s)
        if arrival_s is None:
            wait_s = max(_LEAST_RETRANSMISSION_S, _RETRANSMISSION * (self._travel_s + self.reverse._travel_s))
            self._loop.call_at(now_s + wait_s, self._transmit, segment, True)
            return
        if not again:  # Karn and Partridge 1987: a retransmission measures nothing
            self._travel_s += _GAIN * (arrival_s - now_s - self._travel_s)
        self._loop.call_at(arrival_s, self._arrive, segment)

    def _arrive(self, segment: _Segment) -> None:
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
        """Sends a segment without data back. Its time of arrival does not matter; its share of the rate does."""
        self._acknowledged_by_data()
        self.reverse._way.send(HEADER_BYTES, self._loop.time())

    def _acknowledged_by_data(self) -> None:
        self._unacked_segments = 0
        if self._ack_due is not None:
            self._ack_due.cancel()
            self._ack_due = None


def connect(up: Way, down: Way) -> tuple[Flow, Flow]:
    """Both directions of a connection that is established now. Needs a running loop."""
    now_s = asyncio.get_running_loop().time()
    handshake = (way.send(HEADER_BYTES, now_s) for way in (up, down))
    travels_s = [_UNKNOWN_TRAVEL_S if arrival_s is None else arrival_s - now_s for arrival_s in handshake]
    flows = Flow(up, travels_s[0]), Flow(down, travels_s[1])
    flows[0].reverse, flows[1].reverse = flows[1], flows[0]
    return flows


def _nothing() -> None:
    """The callback of a segment that ends no frame."""
