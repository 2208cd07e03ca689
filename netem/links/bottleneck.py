"""What everything that crosses a link in one direction shares: the queue, the transmitter and the losses.

Composes the pure faults and is pure itself: time is an argument, in seconds since the link began. Knows nothing of
what happens after transmission.
"""

from typing import Protocol

from netem.links.byte_queue import ByteQueue
from netem.links.losses import losses_of
from netem.links.outages import Outages
from netem.links.profile import Direction
from netem.links.rate import LineRate
from netem.links.trace import TraceLine


class Transmitter(Protocol):
    """Takes bytes in order of arrival."""

    def send(self, size_bytes: int, arrival_s: float) -> float: ...

    def backlog_s(self, now_s: float) -> float: ...


class Bottleneck:
    """One per direction of a link."""

    def __init__(self, direction: Direction, outages: Outages, seed: int, way: str) -> None:
        self.transmitter: Transmitter = (
            LineRate(direction.rate_bits_per_s, outages)
            if direction.trace is None
            else TraceLine(direction.trace, outages)
        )
        self._queue = ByteQueue(direction.queue_bytes)
        self._losses = losses_of(direction, seed, way)

    def transmit(self, size_bytes: int, now_s: float) -> float | None:
        """When the last bit of a packet that arrives now has been transmitted; None where the queue is full."""
        if not self._queue.has_room(size_bytes, now_s):
            return None
        transmitted_s = self.transmitter.send(size_bytes, now_s)
        self._queue.enter(size_bytes, transmitted_s)
        return transmitted_s

    def loses(self) -> bool:
        """Whether the packet that was just transmitted is lost on its way. Ask once for each."""
        # Every loss is asked, so that one does not shift the draws of another.
        return sum(loss.takes() for loss in self._losses) > 0
