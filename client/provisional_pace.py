"""When provisional text is shown: at most once an interval, and the last of it too. It may not know who shows it."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from common.clock import Clock

if TYPE_CHECKING:
    import asyncio


class ProvisionalPace:
    def __init__(self, interval_s: float, clock: Clock = time.monotonic):
        self._interval_s = interval_s
        self._clock = clock
        self._shown_at_s = -math.inf
        self._waiting: asyncio.TimerHandle | None = None

    def show(self, show: Callable[[], None]) -> None:
        """Calls it now, or in place of what waits once the interval is over. Within an event loop."""
        left_s = self._shown_at_s + self._interval_s - self._clock()
        if left_s > 0:
            import asyncio  # which a program without a loop does not need

            self.drop()
            self._waiting = asyncio.get_running_loop().call_later(left_s, self._show_now, show)
        else:
            self._show_now(show)

    def begin_anew(self) -> None:
        """All is shown at this moment, for another reason."""
        self.drop()
        self._shown_at_s = self._clock()

    def drop(self) -> None:
        """What waits is not shown any more."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _show_now(self, show: Callable[[], None]) -> None:
        self.begin_anew()
        show()
