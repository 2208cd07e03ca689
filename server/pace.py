"""Stated costs: a small machine stands in for a large one by making passes take as long as they would there.

It may not know what a pass computes.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pace:
    """What a pass, each packed token of it, and a level drafted here cost at least, in seconds."""

    per_pass: float = 0.0
    per_token: float = 0.0
    per_level: float = 0.0

    def cost(self, tokens: int) -> float:
        """Seconds that a pass over `tokens` packed tokens takes."""
        return max(self.per_pass, self.per_token * tokens)


@dataclass(frozen=True, slots=True)
class Timed:
    """How long something computed, in seconds, and whether that was longer than its stated cost."""

    seconds: float
    overran: bool


class Worker(Protocol):
    """Where one thing at a time is computed beside the event loop. A context manager: leaving it waits for the rest."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
        """What `compute` returns, not before its stated `cost` in seconds is used up."""
        ...


class PacedThread:
    """A thread of its own."""

    def __init__(self, name: str):
        self._executor = ThreadPoolExecutor(1, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown()

    async def run(self, cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
        return await asyncio.get_running_loop().run_in_executor(self._executor, run_paced, cost, compute)


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
