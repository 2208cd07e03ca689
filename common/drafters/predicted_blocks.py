"""Blocks: what a network predicts of many positions in one forward, and the levels of a tree that go through them.

What may live here: which block a node's children are proposed from, where a new one is worth most, and best-first
search over what they predict (Draft Tree, arXiv 2604.12989). It may not know how a block is computed, of which kind it
is, sessions or how draft state travels.

A block is conditioned on a path of tokens up to its anchor, and its positions on the path behind that. So it stays
valid for a node as long as the node's path begins with the anchor's, whatever was committed meanwhile.

Siblings are proposed from the distribution of their own parent's position, corrected by the path to it, so that rules
that judge drawn siblings know what they were drawn from.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from common.drafters.best_first import Expansion, scores
from common.drafters.ranking import Ranking
from common.protocol.views import NodeView, Proposal, TreeView
from common.sampling.preceding import NOTHING, Preceding, Text

Path = tuple[int, ...]
"""Tokens that lead to a node, its own included, from the root or from an anchor."""


@dataclass(frozen=True, eq=False)
class Block:
    """What its network keeps of B positions, `hidden [B, ...]`, behind an anchor: the token behind `start` positions of
    the sequence and then `lead`, which ends in it; an empty lead means the last of these positions. `newest_state`: the
    last position whose draft state it knows. `tokens`, int64 `[K]`: those that it may propose (`shortlist`). `states`:
    recurrent ones by path, as far as they were asked for."""

    start: int
    lead: Path
    newest_state: int
    hidden: torch.Tensor
    tokens: torch.Tensor
    states: dict[Path, torch.Tensor] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.hidden)


_SHORTLIST = 64
"""Tokens that a block may propose at each position. So a network multiplies by its whole head once, for all positions;
the levels of a tree through the block are ranked among some hundred tokens, whatever the vocabulary."""


def shortlist(logits: torch.Tensor) -> torch.Tensor:
    """The tokens that a block may propose, int64 `[K]`, from `logits [B, vocabulary]` of its positions."""
    tokens: torch.Tensor = torch.unique(logits.topk(min(_SHORTLIST, logits.shape[-1])).indices)
    return tokens


class Predicting(Protocol):
    """A network that computes blocks. `length`: positions of one; `newest_state`: the last position whose draft state
    has arrived."""

    @property
    def length(self) -> int: ...

    @property
    def newest_state(self) -> int: ...

    def logits(self, block: Block, paths: Sequence[Path]) -> torch.Tensor:
        """`[paths, K]` of the block's tokens behind each path through it."""
        ...


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """Where the children of a node are proposed from: `path` are its tokens behind the block's anchor."""

    block: Block
    path: Path


class Blocks:
    """The blocks of one sequence, and what its ranking offers at their positions."""

    def __init__(self, network: Predicting):
        self._network = network
        self._blocks: list[Block] = []  # the one whose anchor is furthest first
        self._offers: dict[tuple[Block, Path], Any] = {}
        self._rankings: dict[Block, Ranking[Any]] = {}  # over the tokens of each block

    def add(self, block: Block) -> None:
        """Replaces one with the same anchor."""
        held = [each for each in self._blocks if (each.start, each.lead) != (block.start, block.lead)]
        self._blocks = sorted([*held, block], key=lambda each: each.start + len(each.lead), reverse=True)

    def rewritten(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        self._blocks = [block for block in self._blocks if block.start <= keep]

    def forget_offers(self) -> None:
        """They were made for another ranking."""
        self._offers, self._rankings = {}, {}

    def forget_unused(self, positions: Mapping[int, BlockPosition]) -> None:
        used = {position.block for position in positions.values()}
        self._blocks = [block for block in self._blocks if block in used]
        self._offers = {key: offer for key, offer in self._offers.items() if key[0] in used}
        self._rankings = {block: ranking for block, ranking in self._rankings.items() if block in used}

    def positions(self, tokens: Sequence[int], paths: Mapping[int, Path]) -> dict[int, BlockPosition]:
        """The freshest position of each node by id, as far as blocks reach. `paths`: from the root, behind `tokens`."""
        held = [(block, tuple(tokens[block.start :]), len(block.lead), block.length) for block in self._blocks]
        found: dict[int, BlockPosition] = {}
        for id_, path in paths.items():
            for block, since, lead, length in held:
                # By length first, for a tree has hundreds of nodes.
                if not 0 <= len(since) + len(path) - lead < length:
                    continue
                behind = since + path
                if behind[:lead] == block.lead:
                    found[id_] = BlockPosition(block, behind[lead:])
                    break
        return found

    def most_worth(self, view: TreeView, positions: Mapping[int, BlockPosition], ids: Collection[int]) -> int | None:
        """The node of `ids` at which a new block is worth most: likely to be reached, and far behind an anchor or
        computed before the newest draft state came. None where all is as good as it can be."""
        above = scores(view)
        worth = {id_: math.exp(above[id_]) * self._age(positions.get(id_)) for id_ in ids}
        best = max(worth, key=worth.__getitem__)
        return best if worth[best] > 0 else None

    def _age(self, position: BlockPosition | None) -> float:
        if position is None:
            return self._network.length
        return len(position.path) + (position.block.newest_state < self._network.newest_state)

    def offer(self, position: BlockPosition) -> Any:
        """What was offered at this position, None where nothing was."""
        return self._offers.get((position.block, position.path))

    def expand(
        self,
        view: TreeView,
        positions: Mapping[int, BlockPosition],
        known: Mapping[int, Any],
        ranking: Ranking[Any],
        expansion: Expansion,
        least_guess: float = 0.0,
    ) -> list[Proposal]:
        """Levels below the view until nothing more is worth proposing, best first; the first alone where the expansion
        draws once. `known`: the offers of nodes of the view that come from elsewhere, and count instead of a block's.
        `least_guess`: the least cumulative probability of what comes below the first level."""
        proposals: list[Proposal] = []
        reached = dict(positions)
        root = NodeView(0, 0, view.tokens[-1], len(view.tokens) - 1, 0.0)
        nodes = {0: root} | {each.id: each for each in view.nodes}
        while True:
            open_ = {id_: position for id_, position in reached.items() if id_ not in known}
            level = ranking.choose(view, {**known, **self.offers(view.tokens, open_, ranking)}, expansion)
            if not level:
                return proposals
            is_last = expansion.is_one_draw(view)
            expansion = replace(expansion, least_probability=max(expansion.least_probability, least_guess))
            for each in level:
                proposals.append(each)
                parent = nodes[each.parent]
                id_ = -len(proposals)
                nodes[id_] = NodeView(id_, each.parent, each.token, parent.position + 1, parent.logp + each.logp)
                position = reached.get(each.parent)
                if position is not None and len(position.path) + 1 < position.block.length:
                    reached[id_] = BlockPosition(position.block, (*position.path, each.token))
            if is_last:
                return proposals
            view = replace(view, nodes=tuple(each for each in nodes.values() if each is not root))

    def offers(
        self, tokens: Sequence[int], positions: Mapping[int, BlockPosition], ranking: Ranking[Any]
    ) -> dict[int, Any]:
        """What the ranking offers at each position."""
        missing = [position for position in positions.values() if (position.block, position.path) not in self._offers]
        for block in {position.block: None for position in missing}:
            paths = [position.path for position in missing if position.block is block]
            if block not in self._rankings:
                self._rankings[block] = ranking.over(block.tokens)
            logits = self._network.logits(block, paths)
            base = block.start + len(block.lead)
            before = NOTHING
            if ranking.needs_tokens:
                before = Preceding(Text((*tokens[: block.start], *block.lead)), paths)
            offers = self._rankings[block].offers(logits, [base + len(path) for path in paths], before)
            self._offers |= {(block, path): offer for path, offer in zip(paths, offers, strict=True)}
        return {id_: self._offers[position.block, position.path] for id_, position in positions.items()}
