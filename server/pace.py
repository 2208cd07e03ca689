"""Stated costs: a small machine stands in for a large one by making passes take as long as they would there.

It may not know what a pass computes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pace:
    """What a pass costs at least, in seconds."""

    per_pass: float = 0.0
    per_token: float = 0.0

    def cost(self, tokens: int) -> float:
        """Seconds that a pass over `tokens` packed tokens takes."""
        return max(self.per_pass, self.per_token * tokens)


@dataclass(frozen=True, slots=True)
class Timed:
    """How long a pass computed, in seconds, and whether that was longer than its stated cost."""

    seconds: float
    overran: bool


def run_paced(pace: Pace, tokens: int, run: Callable[[], Result]) -> tuple[Result, Timed]:
    """Runs a pass and blocks until its stated cost is used up.

    Blocking in the worker thread, because an event loop wakes up to a millisecond late.
    """
    begun = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - begun
    cost = pace.cost(tokens)
    if seconds < cost:
        time.sleep(cost - seconds)
    return result, Timed(seconds, overran=0 < cost < seconds)
