"""A drafter whose network computes a level of the tree and a block behind one of its nodes in the same forward. The
block's guesses make the tree deep at once; the next level, which computes all of them together, says which are good and
adds better ones beside them. So a level goes several tokens ahead and is as good as one that goes one token ahead.

What may live here: where the block of a forward begins, and what of it is proposed. It may not know how a network
computes, or of which kind it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from common.drafters.best_first import Expansion
from common.drafters.predicted_blocks import Block, Blocks, Path, Predicting
from common.drafters.ranking import Rank, Ranking, ranking_for
from common.drafters.tree_drafter import DraftNetwork, TreeDrafter
from common.models.segment import Segment
from common.protocol.messages import State
from common.protocol.views import Proposal, TreeView

_LEAST_GUESS = 0.1
"""The least cumulative probability of a guess: less likely ones take the room of what later levels add, which knows
more. docs/log.md has the comparison."""


class LevelsAndBlocks(DraftNetwork, Predicting, Protocol):
    def forward_ahead(self, segment: Segment, wanted: int, start: int, lead: Path) -> tuple[torch.Tensor, Block]:
        """As `forward`, and the block whose anchor is one of the wanted rows; `start` and `lead` say which that is."""
        ...


class LevelAndBlockDrafter(TreeDrafter):
    def __init__(
        self,
        network: LevelsAndBlocks,
        expansion: Expansion = Expansion(),  # noqa: B008
        rank: Rank = ranking_for,
    ):
        super().__init__(network, expansion, rank)
        self._looking_ahead = network
        self._blocks = Blocks(network)
        self._view = TreeView((), ())

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        if len(view.nodes) >= self.expansion.nodes:
            self.rescored = view
            self._take_in(view, states)
            return ()
        self._view = view
        return super().draft(view, states)

    @property
    def _goes_ahead(self) -> bool:
        view, expansion = self._view, self.expansion
        return expansion.ahead and not (view.alone or expansion.is_one_draw(view))  # alone, one token at a time

    def _forward(self, segment: Segment, ids: Sequence[int] = ()) -> torch.Tensor:
        if not self._goes_ahead or not ids:
            return super()._forward(segment, ids)
        view, blocks = self._rankings.current.rescored(self._view, self._offers), self._blocks
        paths = view.paths
        positions = blocks.positions(view.tokens, {id_: paths[id_] for id_ in ids})
        anchor = blocks.most_worth(view, positions, ids)
        if anchor is None:
            return super()._forward(segment, ids)
        self.computed += len(segment.tokens)
        logits, block = self._looking_ahead.forward_ahead(segment, ids.index(anchor), len(view.tokens), paths[anchor])
        blocks.add(block)
        return logits

    def _propose(self, view: TreeView, offers: Mapping[int, Any], ranking: Ranking[Any]) -> Sequence[Proposal]:
        if not self._goes_ahead:
            return super()._propose(view, offers, ranking)
        positions = self._blocks.positions(view.tokens, view.paths)
        self._blocks.forget_unused(positions)
        return self._blocks.expand(view, positions, offers, ranking, self.expansion, _LEAST_GUESS)

    def _forget_offers(self) -> None:
        super()._forget_offers()
        self._blocks.forget_offers()

    def _go_back(self, keep: int) -> None:
        super()._go_back(keep)
        self._blocks.rewritten(keep)
