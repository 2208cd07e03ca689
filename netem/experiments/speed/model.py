"""Predicts a system's speed by a discrete-event model with one measured parameter: the coverage of its drafts.

It is a check on the measurements. What may live here: arithmetic on times and probabilities. It knows no engine, no
tree, no network and no profile.

The model: the target's next token is among the children of the node before it with probability `coverage`,
independently. A drafter extends its covered path one level at a time, and stops at the first token that is not covered
until it receives that token. Delays are the link's means; bytes, head-of-line blocking by jitter and prompts cost
nothing.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

_TOKENS = 20_000
_SEED = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """up_s, down_s: the one-way delays. pass_s: of the target. level_s: of a level that the client drafts.
    server_level_s: of one that the server drafts; None where it does not draft."""

    up_s: float
    down_s: float
    pass_s: float
    level_s: float
    server_level_s: float | None = None


def coverage_of(accept_length: float, levels: int) -> float:
    """The coverage c, 0 to 1, at which rounds of so many levels have this accept length: the solution of
    accept_length = 1 + c + c^2 + ... + c^levels, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        reached = sum(middle**power for power in range(levels + 1))
        low, high = (middle, high) if reached < accept_length else (low, middle)
    return low


def predict(coverage: float, costs: Costs, levels_together: int = 3) -> float:
    """Tokens per second of one long streaming answer, with passes that follow one another without a pause.

    levels_together: how many levels the client sends in one message.
    """
    draws = random.Random(_SEED)
    covered = [draws.random() < coverage for _ in range(_TOKENS + 1024)]
    client = _ModelClient(covered, costs, levels_together)
    own_levels = _levels_in_pass(costs)
    now = 0.0
    frontier = own = 0  # `own`: the position up to which the server itself has drafted
    while frontier < _TOKENS:
        began = now
        end = began + costs.pass_s
        arrived = client.arrived(frontier, began)
        judged = max(frontier, arrived, own)
        verified = _run(covered, frontier, judged)
        own = _run(covered, judged, judged + own_levels) if verified == judged else 0
        frontier = verified + 1
        own = max(own, frontier)
        client.hear(frontier, end + costs.down_s)
        now = end
    return frontier / now


def _levels_in_pass(costs: Costs) -> int:
    """The levels that the server drafts in a pass. Rounded first: 18 levels of a third of 5 ms exceed 30 ms in
    floats."""
    if costs.server_level_s is None:
        return 0
    return math.floor(round(costs.pass_s / costs.server_level_s, 6))


class _ModelClient:
    """A client that drafts without a pause; it records when each position arrives at the server."""

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
        """The position up to which the server has this client's nodes at the time `now`."""
        self._draft_until(now - self._costs.up_s)
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
        while self._time + self._costs.level_s <= end:
            while self._heard and self._heard[0][0] <= self._time:
                self._tip = max(self._tip, self._heard.pop(0)[1])
            self._time += self._costs.level_s
            self._levels += 1
            if self._covered[self._tip]:
                self._tip += 1
            if self._levels % self._together == 0:
                self._arrivals.append((self._time + self._costs.up_s, self._tip))


def _run(covered: Sequence[bool], start: int, end: int) -> int:
    """The first position from `start` on that is not covered, at most `end`."""
    position = start
    while position < end and covered[position]:
        position += 1
    return position
