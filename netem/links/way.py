"""One direction of a link for packets: queue, transmitter, losses and delay, in this order.

The packet emulator and the virtual clock both use this composition. Pure and deterministic: time is an argument, in
seconds since the link began (outages and traces count from there), and every random number derives from the seed.
Knows no sockets.

A lost packet has been transmitted, so it has used its share of the rate; a dropped one has not. The others come out in
the order in which they were sent, and all packets of one train with one draw of the jitter (delay.py). A lost packet
keeps the transmitter busy but does not belong to its train: one that is sent behind it, when those before it have left,
begins another.
"""

from netem.links.bottleneck import Bottleneck
from netem.links.delay import DelayLine, jitter_draws
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile


class Way:
    """One direction of one link."""

    def __init__(self, direction: Direction, outages: Outages, seed: int, way: str) -> None:
        """way: "up" or "down", a part of the seed."""
        self._bottleneck = Bottleneck(direction, outages, seed, way)
        self._delay = DelayLine(direction, jitter_draws(seed, 0, way))

    def send(self, size_bytes: int, now_s: float) -> float | None:
        """When the last bit of a packet that is sent now comes out at the far end; None where it is lost.

        now_s may not fall from one call to the next. A call costs O(1), however much is on its way.
        """
        transmitted_s = self._bottleneck.transmit(size_bytes, now_s)
        if transmitted_s is None or self._bottleneck.loses():
            return None
        return self._delay.deliver(now_s, transmitted_s)


def both_ways(profile: LinkProfile) -> tuple[Way, Way]:
    """The way up and the way down of a link that begins now."""
    return (
        Way(profile.up, profile.outages, profile.seed, "up"),
        Way(profile.down, profile.outages, profile.seed, "down"),
    )
