"""Stated costs: work on a small machine is made to take as long as it would take on a stated larger one.

It may know time and threads, not what is computed.
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
    """The measured duration of a computation, in seconds, and whether it exceeded the stated cost."""

    seconds: float
    overran: bool


class Worker(Protocol):
    """Runs one computation at a time, off the event loop."""

    async def run(
        self, cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        """The result of `compute`, not before its stated cost has passed; 0 for no stated cost. `before` is called
        first, and its time counts as part of the computation's. Cancelling the caller does not stop the computation:
        the next one waits for it."""
        ...

    def close(self) -> None:
        """Waits for the running computation."""
        ...


WorkerFactory = Callable[[str], Worker]
"""Makes the worker of a given name."""


class PacedThread:
    """A worker with a thread of its own."""

    def __init__(self, name: str):
        self._executor = ThreadPoolExecutor(1, name)

    async def run(
        self, cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, run_paced, cost_s, compute, before)

    def close(self) -> None:
        self._executor.shutdown()


def run_paced(
    cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
) -> tuple[Result, Timed]:
    """Computes, and blocks the calling thread until the stated cost has passed: an event loop's timers would be up to
    a millisecond late."""
    begun = time.perf_counter()
    if before is not None:
        before()
    result = compute()
    seconds = time.perf_counter() - begun
    if seconds < cost_s:
        time.sleep(cost_s - seconds)
    return result, Timed(seconds, overran=0 < cost_s < seconds)
