"""One direction of a link as the byte stream of a TCP connection sees it: losses are stalls.

For backends that terminate TCP, of which the proxy is the only one. A lost packet arrives one retransmission time late,
and everything behind it waits (head-of-line blocking). That time is one mean round trip, as fast retransmit takes, and
doubles each time the retransmission is lost too. This is a lower bound of what a loss costs: not emulated are the timer
of 200 ms for the last packet before a pause, the rate that a retransmission takes, and congestion control. A full queue
does not drop packets: the sender waits instead.

Pure: time is an argument, in seconds since the link began. Knows no sockets.
"""

from netem.links.bottleneck import Bottleneck
from netem.links.delay import DelayLine, jitter_draws, mean_delay_ms
from netem.links.profile import LinkProfile

_MS_PER_S = 1000.0


class StreamWay:
    """One direction of one connection. Connections share the bottleneck, each has its own jitter."""

    def __init__(self, bottleneck: Bottleneck, delay: DelayLine, retransmission_s: float) -> None:
        self._bottleneck = bottleneck
        self._delay = delay
        self._retransmission_s = retransmission_s

    def send(self, size_bytes: int, now_s: float) -> float:
        """When the last bit of a packet that is sent now comes out at the far end. now_s may not fall."""
        transmitted_s = self._bottleneck.transmitter.send(size_bytes, now_s)
        stall_s, next_stall_s = 0.0, self._retransmission_s
        while self._bottleneck.loses():
            stall_s, next_stall_s = stall_s + next_stall_s, next_stall_s * 2
        return self._delay.deliver(now_s, transmitted_s, stall_s)

    def backlog_s(self, now_s: float) -> float:
        """Seconds from now until all that was sent has been transmitted."""
        return self._bottleneck.transmitter.backlog_s(now_s)


class StreamLink:
    """Both directions of a link that begins now, and the streams that cross it."""

    def __init__(self, profile: LinkProfile) -> None:
        self._profile = profile
        self._up = Bottleneck(profile.up, profile.outages, profile.seed, "up")
        self._down = Bottleneck(profile.down, profile.outages, profile.seed, "down")

    def connect(self, connection: int) -> tuple[StreamWay, StreamWay]:
        """The way up and the way down of a new connection, counted from 0."""
        profile = self._profile
        round_trip_s = (mean_delay_ms(profile.up) + mean_delay_ms(profile.down)) / _MS_PER_S
        return (
            StreamWay(self._up, DelayLine(profile.up, jitter_draws(profile.seed, connection, "up")), round_trip_s),
            StreamWay(
                self._down, DelayLine(profile.down, jitter_draws(profile.seed, connection, "down")), round_trip_s
            ),
        )
