"""Stated costs: a small machine stands in for a known one by making work take as long as it would there.

May know time and threads. It may not know what is computed.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timed:
    """How long something computed, in seconds, and whether that was longer than its stated cost."""

    seconds: float
    overran: bool


class Worker(Protocol):
    """Where one thing at a time is computed beside the event loop."""

    async def run(self, cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
        """What `compute` returns, not before its stated `cost` in seconds is used up; 0 states none. Whoever is
        cancelled here leaves it running, and what comes next waits for it."""
        ...

    def close(self) -> None:
        """Waits for what still runs."""
        ...


Hire = Callable[[str], Worker]
"""Finds a worker for what is named."""


class PacedThread:
    """A thread of its own."""

    def __init__(self, name: str):
        self._executor = ThreadPoolExecutor(1, name)

    async def run(self, cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
        return await asyncio.get_running_loop().run_in_executor(self._executor, run_paced, cost, compute)

    def close(self) -> None:
        self._executor.shutdown()


def run_paced(cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
    """Blocks until the stated cost is used up.

    Blocking in the worker thread, because an event loop wakes up to a millisecond late.
    """
    begun = time.perf_counter()
    result = compute()
    seconds = time.perf_counter() - begun
    if seconds < cost:
        time.sleep(cost - seconds)
    return result, Timed(seconds, overran=0 < cost < seconds)
