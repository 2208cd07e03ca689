"""The propagation delay of transmitted bytes, with jitter and in order.

Pure: time is an argument, in seconds since the link began, and the random source is seeded. Knows no sockets and no
other fault.

**Jitter is drawn once per train.** A train is what one connection sends in one direction without letting the
transmitter fall idle: a small message, or all the packets of a large one; those that are lost do not count. Draws per
packet would be wrong here. A TCP stream is delivered in order, so each packet waits for the slowest before it, and a
burst of n packets would travel for the largest of n draws: at 21±19 ms about 70 ms for 100 packets. One draw per train
makes a large message travel as long as a small one, plus its transmission.

Trains wait for each other in the same way, as they do on a real link with in-order delivery: messages sent more
often than the jitter lasts travel longer than the mean. Small messages every 5 ms at 21±19 ms take 36 ms.

**Negative draws become 0**, as in Linux netem. That lifts the mean from 21 to 22.3 ms at 21±19 ms, and lowers the
standard deviation from 19 to 16.8 ms; `mean_delay_ms` is the formula. The median stays at the centre.
"""

import math
import random

from netem.links.profile import Direction

_MS_PER_S = 1000.0


def jitter_draws(seed: int, connection: int, way: str) -> random.Random:
    """The random source of one direction (`way`, "up" or "down") of one connection, counted from 0."""
    return random.Random(f"{seed}/{connection}/{way}")


def mean_delay_ms(direction: Direction) -> float:
    """The expected one-way delay of a small message on an idle link, in milliseconds."""
    centre, spread = direction.delay_ms, direction.jitter_ms
    if spread == 0:
        return centre
    z = centre / spread
    probability_positive = (1 + math.erf(z / math.sqrt(2))) / 2
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return centre * probability_positive + spread * density


class DelayLine:
    """The delay of one direction of one connection, after transmission."""

    def __init__(self, direction: Direction, draws: random.Random) -> None:
        self._direction = direction
        self._draws = draws
        self._train_delay_s = 0.0
        self._train_ends_s = float("-inf")
        self._last_delivery_s = float("-inf")

    def deliver(self, arrival_s: float, transmitted_s: float, stall_s: float = 0.0) -> float:
        """The time of delivery, never before that of a packet sent earlier.

        arrival_s: when the packet reached the transmitter. transmitted_s: when its last bit left the transmitter.
        stall_s: an extra delay, as of a retransmission.
        """
        if arrival_s > self._train_ends_s:
            self._train_delay_s = self._draw_s()
        self._train_ends_s = transmitted_s
        self._last_delivery_s = max(self._last_delivery_s, transmitted_s + self._train_delay_s + stall_s)
        return self._last_delivery_s

    def _draw_s(self) -> float:
        return max(0.0, self._draws.gauss(self._direction.delay_ms, self._direction.jitter_ms)) / _MS_PER_S
