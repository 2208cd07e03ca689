"""An event loop whose time jumps to the next timer instead of waiting for it, and what computes on it.

What may live here: time. It may not know links, sessions or models. Deterministic: nothing comes from outside.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from common.pacing import Timed

Result = TypeVar("Result")

_RESOLUTION = 1e-12  # seconds between timers that still run one after the other
_TURN_SECONDS = 1e-9
"""Of virtual time for each turn of the loop, so that a wait too short to be told from none cannot spin for ever."""


class StalledError(Exception):
    """Everything waits and no timer is set: in real time this run would hang for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0. Threads and sockets have no place on it: executors compute at once, in no time."""

    def __init__(self) -> None:
        self._selector_of_time = _TimeSelector()
        super().__init__(self._selector_of_time)
        self._clock_resolution = _RESOLUTION

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
    """Never waits: what the loop would have waited for has come."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StalledError("everything waits, and nothing is due")
        self.now = math.nextafter(self.now + max(0.0, timeout) + _TURN_SECONDS, math.inf)
        return []


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` to its end on a virtual clock of its own. Raises StalledError where nothing can happen any more."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualWorker:
    """Computes at once, and answers when the stated cost is used up. It never overruns."""

    def __init__(self, name: str):
        self._free_at = 0.0

    async def run(self, cost: float, compute: Callable[[], Result]) -> tuple[Result, Timed]:
        result = compute()
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + cost
        await asyncio.sleep(self._free_at - now)
        return result, Timed(cost, overran=False)

    def close(self) -> None:
        """Nothing still runs."""
