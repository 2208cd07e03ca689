"""Runs a drafter beside the event loop at a stated pace, and counts levels that overran it.

A stated pace lets a small machine stand in for a known one. Knows no session and decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.pacing import WorkerFactory
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
    """Levels are paced to `pace` seconds each, as `common.pacing` has it; 0 states none."""

    def __init__(self, drafter: Drafter, pace: float, make_worker: WorkerFactory):
        self.levels = Levels()
        self._drafter = drafter
        self._pace = pace
        self._worker = make_worker("drafter")

    def rested(self) -> None:
        """The caller waited until now for something to draft."""
        self._worker.rested()

    async def draft(self, view: TreeView, states: Sequence[State], expansion: Expansion) -> Sequence[Proposal]:
        """One level within the bounds of `expansion`. A cancelled call leaves it running, and the next one waits for
        it."""
        self._drafter.expansion = expansion
        proposals, timed = await self._worker.run(self._pace, lambda: self._drafter.draft(view, states))
        self.levels = Levels(self.levels.drafted + 1, self.levels.overrun + timed.overran)
        return proposals

    def close(self) -> None:
        """Waits for a level that still runs."""
        self._worker.close()


@dataclass(frozen=True, slots=True)
class DetachedDrafter:
    """What is left of a conversation whose link was ended for good: its drafter, and the draft state that it has not
    seen."""

    drafter: PacedDrafter
    draft_name: str
    states: tuple[State, ...]
