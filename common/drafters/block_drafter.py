"""A drafter whose network knows nothing but blocks (`blocks.py`): each call computes one, where the tree relies most on
old ones.

It may not know how a block is computed, of which kind it is, sessions or how draft state travels.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from common.drafters.best_first import Expansion
from common.drafters.blocks import Block, Blocks, Predicting
from common.drafters.calibration import NoiseTrust
from common.drafters.ranking import Rank, Ranking, ranking_for
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TreeView


class BlockPredictor(Predicting, Protocol):
    """A network that computes a block by itself."""

    kind: str

    def absorb(self, states: Sequence[State]) -> None:
        """Takes draft state of committed positions. Raises PeerError for a corrupt frame."""
        ...

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        ...

    def predict_block(self, tokens: Sequence[int], path: Sequence[int]) -> Block:
        """The block whose anchor is the end of the `path` behind the committed `tokens`."""
        ...


class BlockDrafter:
    def __init__(
        self,
        network: BlockPredictor,
        request: StateRequest | None,
        expansion: Expansion = Expansion(),  # noqa: B008
        rank: Rank = ranking_for,
    ):
        self.kind = network.kind
        self.state = request
        self.expansion = expansion
        self._network = network
        self._blocks = Blocks(network)
        self._rank = rank
        self._trust = NoiseTrust()
        self._ranking: Ranking[Any] | None = None
        self._ranked_for: tuple[Any, ...] | None = None
        self._tokens: tuple[int, ...] = ()
        self.judged = TreeView((), ())

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        ranking = self._choose_ranking(view)
        self._follow(view.tokens, len(view.tokens) - view.provisional)
        self._network.absorb(states)
        paths, blocks = view.paths, self._blocks
        self.judged = view
        if len(view.nodes) >= self.expansion.nodes:
            return ()
        anchor = blocks.most_worth(view, blocks.positions(view.tokens, paths), paths.keys())
        if anchor is not None:
            blocks.add(self._network.predict_block(view.tokens, paths[anchor]))
        positions = blocks.positions(view.tokens, paths)
        blocks.forget_unused(positions)
        self.judged = ranking.judged(view, blocks.offers(view.tokens, positions, ranking))
        return blocks.expand(self.judged, positions, {}, ranking, self.expansion)

    def _choose_ranking(self, view: TreeView) -> Ranking[Any]:
        """The ranking for how the target chooses in this view. Offers that were made for others are dropped."""
        how = (view.rule, view.sampling, view.constraint, view.prompt_length)
        if self._ranking is None or self._ranked_for != how:
            self._ranking = self._rank(view, self.expansion.children, None, self._trust)
            self._ranked_for = how
            self._blocks.forget_offers()
        return self._ranking

    def _follow(self, tokens: tuple[int, ...], judged: int) -> None:
        """Goes on with these tokens, or back to where they begin to differ. Only the first `judged` of them are the
        target's, from which the ranking learns."""
        keep = common_prefix(self._tokens, tokens)
        if keep < len(self._tokens):
            self._blocks.rewritten(keep)
            self._network.forget(keep)
        elif self._ranking is not None:
            for known in range(keep, min(judged, len(tokens))):
                position = self._blocks.positions(tokens[:known], {0: ()}).get(0)
                offer = None if position is None else self._blocks.offer(position)
                if offer is not None:
                    self._ranking.learn(offer, tokens[known])
        self._tokens = tokens
