"""Where packets wait for the transmitter, and are dropped when there is no room: a tail-drop queue counted in bytes.

Pure: time is an argument, in seconds since the link began. Knows nothing of how fast packets leave.
"""

from collections import deque


class ByteQueue:
    """The queue of one direction; a packet is in it until its last bit has been transmitted."""

    def __init__(self, limit_bytes: int | None) -> None:
        """limit_bytes: None is unlimited."""
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[float, int]] = deque()
        self._waiting_bytes = 0

    def has_room(self, size_bytes: int, now_s: float) -> bool:
        """Whether a packet that arrives now is taken. An empty queue takes any, else large ones could never pass."""
        if self._limit_bytes is None:
            return True
        while self._waiting and self._waiting[0][0] <= now_s:
            self._waiting_bytes -= self._waiting.popleft()[1]
        return not self._waiting or self._waiting_bytes + size_bytes <= self._limit_bytes

    def enter(self, size_bytes: int, leaves_s: float) -> None:
        if self._limit_bytes is not None:
            self._waiting.append((leaves_s, size_bytes))
            self._waiting_bytes += size_bytes
