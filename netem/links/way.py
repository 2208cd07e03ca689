"""One direction of a link as packets meet it: queue, transmitter, losses, delay.

The one composition of the pure faults; an emulator or a virtual clock brings packets and moments. Pure and
deterministic: time is an argument, in seconds since the link began (outages and traces count from there), and every
draw derives from the seed. Knows no sockets.

A lost packet has been transmitted, so it has taken its share of the rate; a dropped one has not. What survives comes
out in the order in which it was sent, and all of one train with one draw of the jitter (delay.py).
"""

from netem.links.bottleneck import Bottleneck
from netem.links.delay import DelayLine, jitter_draws
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile


class Way:
    """What packets travel in one direction; `way` is "up" or "down"."""

    def __init__(self, direction: Direction, outages: Outages, seed: int, way: str) -> None:
        self._bottleneck = Bottleneck(direction, outages, seed, way)
        self._delay = DelayLine(direction, jitter_draws(seed, 0, way))

    def send(self, size_bytes: int, now_s: float) -> float | None:
        """When the last bit of a packet that is sent now comes out at the far end; None where it is lost.

        now_s may not fall from one call to the next. A call takes the same time however much is on its way.
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
