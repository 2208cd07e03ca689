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

WAKE_S = 0.0001
"""The most by which a thread that sleeps to the end of a stated cost, and wakes late, delays the next computation.
Measured on two quiet cores (docs/log.md); on the virtual clock each computation ends so much late."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The measured duration of a computation, in seconds, and whether its stated cost was exceeded."""

    seconds: float
    overran: bool


class Worker(Protocol):
    """Runs one computation at a time, off the event loop.

    A stated cost includes what its caller does before: it counts from the end of the computation before, or from
    `rested`. A computation that takes longer overruns. The next one may make up for that, up to one cost, as for a
    thread that woke later than `WAKE_S`: on the machine that is stated it would have begun earlier.
    """

    def rested(self) -> None:
        """The caller waited until now for something to compute."""
        ...

    async def run(
        self, cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        """The result of `compute`, not before it is due at its stated cost; 0 for no stated cost. `before` is called
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
        self._free_s = self._begins_s = time.perf_counter()  # here, and on the machine that is stated

    def rested(self) -> None:
        self._free_s = self._begins_s = time.perf_counter()

    async def run(
        self, cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, cost_s, compute, before)

    def close(self) -> None:
        self._executor.shutdown()

    def _run(
        self, cost_s: float, compute: Callable[[], Result], before: Callable[[], object] | None
    ) -> tuple[Result, Timed]:
        """Computes, and blocks this thread until that is due: an event loop's timers would be up to a millisecond
        late."""
        begun_s = time.perf_counter()
        if before is not None:
            before()
        result = compute()
        ended_s = time.perf_counter()
        overran = ended_s > self._free_s + cost_s and cost_s > 0
        due_s = self._begins_s + cost_s
        if ended_s < due_s:
            time.sleep(due_s - ended_s)
        self._free_s = time.perf_counter()
        self._begins_s = max(min(self._free_s, due_s + WAKE_S), self._free_s - cost_s)
        return result, Timed(ended_s - begun_s, overran)
