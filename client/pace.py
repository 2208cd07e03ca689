"""A drafter in a thread of its own, at a stated pace, and how well the pace was kept.

So a small machine may stand in for a known one. Knows no session and decides nothing; the clock is injected.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from client.stats import Clock
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.protocol.messages import State
from common.protocol.views import Proposal, TreeView


@dataclass(frozen=True, slots=True)
class Levels:
    """Drafted levels, and those of them that took longer than a stated pace."""

    drafted: int = 0
    overrun: int = 0

    def since(self, earlier: "Levels") -> "Levels":
        return Levels(self.drafted - earlier.drafted, self.overrun - earlier.overrun)


class PacedDrafter:
    """Each level takes at least `pace` seconds; 0 states none."""

    def __init__(self, drafter: Drafter, pace: float, clock: Clock):
        self.levels = Levels()
        self._drafter = drafter
        self._pace = pace
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "drafter")

    async def draft(self, view: TreeView, states: Sequence[State], expansion: Expansion) -> Sequence[Proposal]:
        """One level within the bounds of `expansion`. Whoever is cancelled here leaves it running in the thread, where
        the next one waits for it."""
        began = self._clock()
        loop = asyncio.get_running_loop()
        self._drafter.expansion = expansion
        proposals = await loop.run_in_executor(self._thread, self._drafter.draft, view, states)
        took = self._clock() - began
        self.levels = Levels(self.levels.drafted + 1, self.levels.overrun + (took > self._pace > 0))
        if took < self._pace:
            await asyncio.sleep(self._pace - took)
        return proposals

    def close(self) -> None:
        """Waits for a level that still runs."""
        self._thread.shutdown()
