"""An asyncio event loop whose time jumps to the next timer instead of waiting for it, and a worker on it.

What may live here: time. It may not know links, sessions or models. Deterministic: it has no input from outside.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from common.pacing import WAKE_S, Timed

Result = TypeVar("Result")

_RESOLUTION_S = 1e-12  # timers further apart than this run one after the other
_ITERATION_S = 1e-9
"""Virtual time for each iteration of the loop, so that a wait too short for a float to represent cannot loop for
ever."""


class StalledError(Exception):
    """Deadlock: everything waits and no timer is set, so in real time this run would hang for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0. It supports neither threads nor sockets: executors compute at once, in no virtual time."""

    def __init__(self) -> None:
        self._selector_of_time = _TimeSelector()
        super().__init__(self._selector_of_time)
        self._clock_resolution = _RESOLUTION_S

    def time(self) -> float:
        return self._selector_of_time.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _TimeSelector(selectors.DefaultSelector):
    """Never waits: it advances the time by the timeout and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StalledError("everything waits, and nothing is due")
        self.now = math.nextafter(self.now + max(0.0, timeout) + _ITERATION_S, math.inf)
        return []


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` to its end on a new virtual clock. Raises StalledError upon a deadlock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualWorker:
    """Computes at once, and returns when the stated cost, if any, and the time to wake have passed in virtual time. It
    never overruns."""

    def __init__(self, name: str):
        self._free_at = 0.0

    def rested(self) -> None:
        """Changes nothing: what a caller does takes no virtual time."""

    async def run(
        self, cost: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        if before is not None:
            before()
        result = compute()
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + cost + (WAKE_S if cost else 0.0)
        await asyncio.sleep(self._free_at - now)
        return result, Timed(cost, overran=False)

    def close(self) -> None:
        """Does nothing: no thread runs."""
