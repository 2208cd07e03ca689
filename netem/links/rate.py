"""How fast a link takes bytes: one bit after another, in order of arrival.

Pure: time is an argument, in seconds since the link began. Knows no sockets and no other fault than the outages that
halt it.
"""

from netem.links.outages import NEVER, Outages

_BITS_PER_BYTE = 8


class LineRate:
    """The transmitter of one direction of a link, shared by everything that crosses in that direction."""

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
