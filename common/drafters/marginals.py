"""A drafter whose network predicts many positions in one forward; a tree goes through them best first.

What may live here: which block a node's children are proposed from, and when a new block is worth a forward. It may not
know how a block is computed, of which kind it is, sessions or how draft state travels.

A block is conditioned on a path of tokens up to its anchor, and its places on the path behind that. So it stays valid
for a node as long as the node's path begins with the anchor's, whatever was committed meanwhile. Each call computes one
block, where the tree relies most on old ones: that is how best-first search over marginals (Draft Tree, arXiv
2604.12989) goes on behind the end of a block.

Siblings are proposed from the distribution of their own parent's place, corrected by the path to it, so that rules that
judge drawn siblings know what they were drawn from.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from common.drafters.best_first import Expansion
from common.drafters.calibration import NoiseTrust
from common.drafters.ranking import Rank, Ranking, ranking_for
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import NodeView, Proposal, TreeView


@dataclass(frozen=True, eq=False)
class Block:
    """Places `[B, E]` behind an anchor: the token behind `start` positions of the sequence and then `lead`, which ends
    in it; an empty lead means the last of these positions. `newest_state`: the last position whose draft state it
    knows. `states`: recurrent ones by path, as far as they were asked for."""

    start: int
    lead: tuple[int, ...]
    newest_state: int
    places: torch.Tensor
    states: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.places)


class LookingAhead(Protocol):
    """A network that computes blocks. `length`: positions of one; `newest_state`: the last position whose draft state
    has arrived."""

    kind: str

    @property
    def length(self) -> int: ...

    @property
    def newest_state(self) -> int: ...

    def absorb(self, states: Sequence[State]) -> None:
        """Takes draft state of committed positions. Raises PeerError for a corrupt frame."""
        ...

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        ...

    def look_ahead(self, tokens: Sequence[int], path: Sequence[int]) -> Block:
        """The block whose anchor is the end of the `path` behind the committed `tokens`."""
        ...

    def logits(self, block: Block, paths: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """`[paths, vocabulary]` of the tokens behind each path through the block."""
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the children of a node are proposed from: `path` are its tokens behind the block's anchor."""

    block: Block
    path: tuple[int, ...]


class BlockDrafter:
    def __init__(
        self,
        network: LookingAhead,
        request: StateRequest,
        expansion: Expansion = Expansion(),  # noqa: B008
        rank: Rank = ranking_for,
    ):
        self.kind = network.kind
        self.state: StateRequest | None = request
        self.expansion = expansion
        self._network = network
        self._rank = rank
        self._trust = NoiseTrust()
        self._ranking: Ranking[Any] | None = None
        self._ranked_for: tuple[Any, ...] | None = None
        self._tokens: tuple[int, ...] = ()
        self._blocks: list[Block] = []  # the one whose anchor is furthest first
        self._offers: dict[tuple[Block, tuple[int, ...]], Any] = {}  # the ranking's, by place

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        ranking = self._choose_ranking(view)
        self._follow(view.tokens, len(view.tokens) - view.provisional)
        self._network.absorb(states)
        paths = view.paths
        if len(view.nodes) >= self.expansion.nodes:
            return ()
        places = self._places(paths)
        oldest = self._oldest(view, places)
        if oldest is not None:
            self._compute(paths[oldest])
            places = self._places(paths)
        self._forget_unused(places)
        return self._expand(view, places, ranking)

    def _choose_ranking(self, view: TreeView) -> Ranking[Any]:
        """The ranking for how the target chooses in this view. Offers that were made for others are dropped."""
        how = (view.rule, view.sampling, view.constraint, view.prompt_length)
        if self._ranking is None or self._ranked_for != how:
            self._ranking = self._rank(view, self.expansion.children, None, self._trust)
            self._ranked_for = how
            self._offers = {}
        return self._ranking

    def _follow(self, tokens: tuple[int, ...], judged: int) -> None:
        """Goes on with these tokens, or back to where they begin to differ. Only the first `judged` of them are the
        target's, from which the ranking learns."""
        keep = common_prefix(self._tokens, tokens)
        if keep < len(self._tokens):
            self._blocks = [block for block in self._blocks if block.start <= keep]
            self._network.forget(keep)
        elif self._ranking is not None:
            for known in range(keep, min(judged, len(tokens))):
                self._tokens = tokens[:known]
                place = self._places({0: ()})[0]
                offer = None if place is None else self._offers.get((place.block, place.path))
                if offer is not None:
                    self._ranking.learn(offer, tokens[known])
        self._tokens = tokens

    def _places(self, paths: Mapping[int, tuple[int, ...]]) -> dict[int, _Place | None]:
        """The freshest place of each node by id, None where no block reaches."""
        since = {block: self._tokens[block.start :] for block in self._blocks}
        found: dict[int, _Place | None] = {}
        for id_, path in paths.items():
            found[id_] = None
            for block in self._blocks:
                tokens = (*since[block], *path)
                ahead = len(tokens) - len(block.lead)
                if 0 <= ahead < block.length and tokens[: len(block.lead)] == block.lead:
                    found[id_] = _Place(block, tokens[len(block.lead) :])
                    break
        return found

    def _oldest(self, view: TreeView, places: Mapping[int, _Place | None]) -> int | None:
        """The node at which a new block is worth most: likely to be reached, and far behind an anchor or computed
        before the newest draft state came. None where all is as good as it can be."""
        if places[0] is None:
            return 0
        reached = {0: 1.0} | {node.id: math.exp(node.logp) for node in view.nodes}
        worth = {id_: reached[id_] * self._age(place) for id_, place in places.items()}
        oldest = max(worth, key=worth.__getitem__)
        return oldest if worth[oldest] > 0 else None

    def _age(self, place: _Place | None) -> float:
        if place is None:
            return self._network.length
        return len(place.path) + (place.block.newest_state < self._network.newest_state)

    def _compute(self, path: tuple[int, ...]) -> None:
        block = self._network.look_ahead(self._tokens, path)
        stale = [each for each in self._blocks if (each.start, each.lead) == (block.start, block.lead)]
        for each in stale:
            self._blocks.remove(each)
        self._blocks.append(block)
        self._blocks.sort(key=lambda each: each.start + len(each.lead), reverse=True)

    def _forget_unused(self, places: Mapping[int, _Place | None]) -> None:
        used = {place.block for place in places.values() if place is not None}
        self._blocks = [block for block in self._blocks if block in used]
        self._offers = {place: offer for place, offer in self._offers.items() if place[0] in used}

    def _expand(self, view: TreeView, places: Mapping[int, _Place | None], ranking: Ranking[Any]) -> Sequence[Proposal]:
        """Levels below the view until nothing more is worth proposing."""
        proposals: list[Proposal] = []
        reached = {id_: place for id_, place in places.items() if place is not None}
        fresh = reached
        while True:
            self._offer(fresh, ranking)
            offers = {id_: self._offers[place.block, place.path] for id_, place in reached.items()}
            level = ranking.choose(view, offers, self.expansion)
            if not level:
                return proposals
            above = {0: NodeView(0, 0, view.tokens[-1], len(view.tokens) - 1, 0.0)} | {
                each.id: each for each in view.nodes
            }
            fresh, added = {}, []
            for each in level:
                proposals.append(each)
                id_, parent, node = -len(proposals), reached[each.parent], above[each.parent]
                added.append(NodeView(id_, each.parent, each.token, node.position + 1, node.logp + each.logp))
                if len(parent.path) + 1 < parent.block.length:
                    fresh[id_] = _Place(parent.block, (*parent.path, each.token))
            reached |= fresh
            view = replace(view, nodes=(*view.nodes, *added))

    def _offer(self, places: Mapping[int, _Place], ranking: Ranking[Any]) -> None:
        """Makes the offers of these places that are not made yet."""
        missing = [place for place in places.values() if (place.block, place.path) not in self._offers]
        for block in {place.block: None for place in missing}:
            paths = [place.path for place in missing if place.block is block]
            logits = self._network.logits(block, paths)
            base = block.start + len(block.lead)
            before = [(*self._tokens[: block.start], *block.lead, *path) for path in paths]
            offers = ranking.offers(
                logits, [base + len(path) for path in paths], before if ranking.needs_tokens else []
            )
            self._offers |= {(block, path): offer for path, offer in zip(paths, offers, strict=True)}
