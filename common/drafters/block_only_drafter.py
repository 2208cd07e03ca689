"""A drafter whose network knows nothing but blocks (`predicted_blocks.py`): each call computes one, where the tree
relies most on old ones.

It may not know how a block is computed, of which kind it is, sessions or how draft state travels.
"""

from collections.abc import Sequence
from typing import Protocol

from common.drafters.best_first import Expansion
from common.drafters.predicted_blocks import Block, Blocks, Predicting
from common.drafters.ranking import Rank, Rankings, ranking_for
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


class BlockOnlyDrafter:
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
        self._rankings = Rankings(rank)
        self._tokens: tuple[int, ...] = ()
        self.rescored = TreeView((), ())

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        if self._rankings.follow(view, self.expansion.children):
            self._blocks.forget_offers()
        self._follow(view)
        self._network.absorb(states)
        paths, blocks, ranking = view.paths, self._blocks, self._rankings.current
        self.rescored = view
        if len(view.nodes) >= self.expansion.nodes:
            return ()
        anchor = blocks.most_worth(view, blocks.positions(view.tokens, paths), paths.keys())
        if anchor is not None:
            blocks.add(self._network.predict_block(view.tokens, paths[anchor]))
        positions = blocks.positions(view.tokens, paths)
        blocks.forget_unused(positions)
        self.rescored = ranking.rescored(view, blocks.offers(view.tokens, positions, ranking))
        return blocks.expand(self.rescored, positions, {}, ranking, self.expansion)

    def _follow(self, view: TreeView) -> None:
        """Goes on with the sequence, or back to where it begins to differ. The ranking learns from the target's own
        tokens alone."""
        tokens = view.tokens
        keep = common_prefix(self._tokens, tokens)
        if keep < len(self._tokens):
            self._blocks.rewritten(keep)
            self._network.forget(keep)
        else:
            for known in range(keep, view.verified_length):
                position = self._blocks.positions(tokens[:known], {0: ()}).get(0)
                offer = None if position is None else self._blocks.offer(position)
                if offer is not None:
                    self._rankings.current.learn(offer, tokens[known])
        self._tokens = tokens
