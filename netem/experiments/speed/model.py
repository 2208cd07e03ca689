"""What a system should reach, by a discrete-event model with one number from measurement: the coverage of its drafts.

Stands beside the measurements, so that a figure off the model is noticed. What may live here: arithmetic on times and
chances. It knows no engine, no tree, no network and no profile.

The target's next token is among the nodes below the one before with the chance `coverage`, independently. Whoever
drafts knows its own covered path only, a level at a time, and gets no further than the first token that is not covered
until it hears of that token. Delays are the link's means; bytes, jitter's waits in order and prompts cost nothing.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

_TOKENS = 20_000
_SEED = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. `up` and `down` are one way; `server_level` is None where the server does not draft."""

    up: float
    down: float
    pass_seconds: float
    level: float
    server_level: float | None = None


def coverage_of(accept_length: float, levels: int) -> float:
    """The chance that a token is covered where rounds of so many levels have this accept length: what solves
    accept_length = 1 + c + c^2 + ... + c^levels."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        reached = sum(middle**power for power in range(levels + 1))
        low, high = (middle, high) if reached < accept_length else (low, middle)
    return low


def predict(coverage: float, costs: Costs, levels_together: int = 3) -> float:
    """Tokens per second of one streaming answer that goes on for long, passes following one another at once."""
    draws = random.Random(_SEED)
    covered = [draws.random() < coverage for _ in range(_TOKENS + 1024)]
    laptop = _Laptop(covered, costs, levels_together)
    own_levels = _levels_in_pass(costs)
    now = 0.0
    frontier = own = 0  # `own`: positions that the server itself has drafted up to
    while frontier < _TOKENS:
        began = now
        end = began + costs.pass_seconds
        arrived = laptop.arrived(frontier, began)
        judged = max(frontier, arrived, own)
        verified = _run(covered, frontier, judged)
        own = _run(covered, judged, judged + own_levels) if verified == judged else 0
        frontier = verified + 1
        own = max(own, frontier)
        laptop.hear(frontier, end + costs.down)
        now = end
    return frontier / now


def _levels_in_pass(costs: Costs) -> int:
    """What the server drafts meanwhile. Rounded first: 18 levels of a third of 5 ms come to a little over 30 ms."""
    if costs.server_level is None:
        return 0
    return math.floor(round(costs.pass_seconds / costs.server_level, 6))


class _Laptop:
    """Drafts without a break; what it sent is known by when each position arrived."""

    def __init__(self, covered: Sequence[bool], costs: Costs, levels_together: int):
        self._covered = covered
        self._costs = costs
        self._together = levels_together
        self._arrivals: list[tuple[float, int]] = []  # (when, up to which position)
        self._heard: list[tuple[float, int]] = []
        self._time = 0.0
        self._tip = 0
        self._levels = 0

    def hear(self, frontier: int, when: float) -> None:
        self._heard.append((when, frontier))

    def arrived(self, frontier: int, now: float) -> int:
        """Up to which position the server has this laptop's nodes by now."""
        self._draft_until(now - self._costs.up)
        reached = frontier
        kept = []
        for when, position in self._arrivals:
            if when <= now:
                reached = max(reached, position)
            if position > frontier:
                kept.append((when, position))
        self._arrivals = kept
        return reached

    def _draft_until(self, end: float) -> None:
        while self._time + self._costs.level <= end:
            while self._heard and self._heard[0][0] <= self._time:
                self._tip = max(self._tip, self._heard.pop(0)[1])
            self._time += self._costs.level
            self._levels += 1
            if self._covered[self._tip]:
                self._tip += 1
            if self._levels % self._together == 0:
                self._arrivals.append((self._time + self._costs.up, self._tip))


def _run(covered: Sequence[bool], start: int, end: int) -> int:
    """How far tokens are covered from `start` on, at most to `end`."""
    position = start
    while position < end and covered[position]:
        position += 1
    return position
