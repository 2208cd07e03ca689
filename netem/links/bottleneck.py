"""What all connections of a link share in one direction: the queue, the transmitter and the losses.

Composes the faults and is pure: time is an argument, in seconds since the link began. Knows nothing of what happens
after transmission.
"""

from collections import deque
from typing import Protocol

from netem.links.losses import losses_of
from netem.links.outages import NEVER, Outages
from netem.links.profile import Direction
from netem.links.trace import TraceLine

_BITS_PER_BYTE = 8


class Transmitter(Protocol):
    """Sends bytes in the order of their arrival."""

    def send(self, size_bytes: int, arrival_s: float) -> float: ...

    def backlog_s(self, now_s: float) -> float: ...


class LineRate:
    """A transmitter with a constant rate, which outages halt."""

    def __init__(self, rate_bits_per_s: float | None, outages: Outages = NEVER) -> None:
        """rate_bits_per_s: None is unlimited."""
        self._seconds_per_byte = 0.0 if rate_bits_per_s is None else _BITS_PER_BYTE / rate_bits_per_s
        self._outages = outages
        self._idle_from_s = float("-inf")

    def send(self, size_bytes: int, arrival_s: float) -> float:
        """Accept size_bytes that arrived at arrival_s; return when the last bit has been transmitted."""
        start_s = max(self._idle_from_s, arrival_s)
        self._idle_from_s = self._outages.finish_s(start_s, size_bytes * self._seconds_per_byte)
        return self._idle_from_s

    def backlog_s(self, now_s: float) -> float:
        """Seconds from now until all that was accepted has been transmitted."""
        return max(0.0, self._idle_from_s - now_s)


class ByteQueue:
    """A tail-drop queue counted in bytes; a packet is in it until its last bit has been transmitted."""

    def __init__(self, limit_bytes: int | None) -> None:
        """limit_bytes: None is unlimited."""
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[float, int]] = deque()
        self._waiting_bytes = 0

    def has_room(self, size_bytes: int, now_s: float) -> bool:
        """Whether a packet that arrives now is accepted. An empty queue accepts any, else large ones could never
        pass."""
        if self._limit_bytes is None:
            return True
        while self._waiting and self._waiting[0][0] <= now_s:
            self._waiting_bytes -= self._waiting.popleft()[1]
        return not self._waiting or self._waiting_bytes + size_bytes <= self._limit_bytes

    def enter(self, size_bytes: int, leaves_s: float) -> None:
        """Adds a packet whose last bit will have been transmitted at leaves_s."""
        if self._limit_bytes is not None:
            self._waiting.append((leaves_s, size_bytes))
            self._waiting_bytes += size_bytes


class Bottleneck:
    """One per direction of a link."""

    def __init__(self, direction: Direction, outages: Outages, seed: int, way: str) -> None:
        """way: "up" or "down", a part of the seed of the losses."""
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
        """Whether the packet that was just transmitted is lost on its way. Call it once for each packet."""
        # Every loss draws for every packet, so that one loss does not shift the random numbers of another.
        return sum(loss.takes() for loss in self._losses) > 0
