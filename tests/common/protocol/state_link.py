"""A simulated link for the state window: a rate, a delay each way with jitter, order kept, and an unbounded queue.

There is always as much to send as the window allows, and small commits now and then queue behind it.
"""

import heapq
import random
from dataclasses import dataclass

from common.protocol.state_window import StateWindow

_OVERHEAD = 60  # bytes that every frame costs beside its payload
_LONGEST_FRAME = 16 * 1024
_LEAST_FRAME = 256


@dataclass(frozen=True)
class Link:
    rate: float  # bytes per second down
    trip: float  # seconds there and back, on average
    jitter: float = 0.0  # standard deviation of one way, in seconds


@dataclass
class Measured:
    delivered: float  # bytes per second
    delays: list[float]  # the seconds that commits waited behind state, ascending

    def delay(self, quantile: float) -> float:
        return self.delays[int(quantile * (len(self.delays) - 1))]

    @property
    def mean_delay(self) -> float:
        return sum(self.delays) / len(self.delays)


def flood(
    link: Link, window: StateWindow, seconds: float, warm_up: float, seed: int = 0, began: float = 0.0
) -> Measured:
    """Sends for `seconds` and measures after `warm_up`."""
    draw = random.Random(seed)
    now, free, commit = began, began, began
    arrival = {"down": began, "up": began}
    acknowledgements: list[tuple[float, int]] = []
    delivered, delays = 0, []

    def travel(way: str, at: float) -> float:
        arrival[way] = max(arrival[way], at + max(0.0, draw.gauss(link.trip / 2, link.jitter)))
        return arrival[way]

    while now < began + seconds:
        while (size := max(_LEAST_FRAME, min(_LONGEST_FRAME, window.frame))) <= window.room or not window.in_flight:
            window.sent(size, now)
            free = max(free, now) + (size + _OVERHEAD) / link.rate
            heapq.heappush(acknowledgements, (travel("up", travel("down", free)), size))
        now, size = heapq.heappop(acknowledgements)
        while commit < now:
            if commit > began + warm_up:
                delays.append(max(0.0, free - commit))
            commit += draw.uniform(0.005, 0.015)
        window.acknowledged(now)
        delivered += size if now > began + warm_up else 0
    while acknowledgements:
        window.acknowledged(heapq.heappop(acknowledgements)[0])
    return Measured(delivered / (seconds - warm_up), sorted(delays))
