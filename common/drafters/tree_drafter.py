"""The drafter of every network with K/V: it follows a session's tree and expands it best first.

It may know slots, segments and views, not how a network computes or what its draft state holds.

It keeps the K/V of committed tokens and of live nodes. A commit moves slots from the tree to the past, and nothing is
computed again but what newly arrived draft state changes. A ranking turns the network's logits into proposals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from common.drafters.best_first import Expansion
from common.drafters.constrained import with_forced
from common.drafters.load import DrafterConfig, DrafterFactory
from common.drafters.ranking import Rank, Ranking, Rankings, ranking_for
from common.integers import Integers
from common.models.segment import Segment
from common.models.slot_sequence import SlotSequence
from common.models.slots import SlotPool
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import NodeView, Proposal, TreeView
from common.sampling.preceding import NOTHING, Preceding, Text

_CHUNK = 512  # committed tokens of one forward


class DraftNetwork(Protocol):
    """A network with K/V for `capacity` tokens, addressed by slot."""

    kind: str
    state: StateRequest | None
    capacity: int
    columns: torch.Tensor | None
    """The tokens of the logits' columns, int64 [columns]; None where they are the target's vocabulary."""

    def forward(self, segment: Segment) -> torch.Tensor:
        """Writes the new tokens' K/V, and returns the logits `[wanted, columns]` of the next tokens."""
        ...

    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        """Takes draft state of committed positions, whose K/V lie in `past_slots`.

        Returns the first committed position whose computation it changes; `len(past_slots)` for none. If
        `renews_nodes`, live nodes are computed again whenever the root is. Raises PeerError for a corrupt frame.
        """
        ...

    @property
    def renews_nodes(self) -> bool:
        """Whether all nodes can be computed again in one forward, together with the root."""
        ...

    def forget(self, keep: int) -> None:
        """Drops the draft state of positions from `keep` on, which were rewritten."""
        ...


def tree_factory(make_network: Callable[[], DraftNetwork], config: DrafterConfig) -> DrafterFactory:
    """Each drafter has a network of its own, on weights that are loaded already."""
    return lambda: TreeDrafter(make_network(), config.expansion, config.ranking)


@dataclass
class _Branch:
    """A live node whose K/V the network holds."""

    parent: int  # 0 where it hangs from the root
    token: int
    slot: int
    offer: Any  # the ranking's


class TreeDrafter:
    def __init__(
        self,
        network: DraftNetwork,
        expansion: Expansion = Expansion(),  # noqa: B008
        rank: Rank = ranking_for,
    ):
        self.kind = network.kind
        self.state = network.state
        self.computed = 0  # tokens that have been through the network
        self.rescored = TreeView((), ())
        self._network = network
        self.expansion = expansion
        self._slots = SlotPool(network.capacity)
        self._past: tuple[int, ...] = ()
        self._past_slots = SlotSequence()
        self._computed_past = 0  # leading positions of the past whose K/V are as good as they can be
        self._branches: dict[int, _Branch] = {}  # parents first
        self._root_offer: Any = None  # the ranking's; None where it is to be computed
        self._rankings = Rankings(rank, network.columns)

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        ranking = self._take_in(view, states)
        self._read_past()
        if self._network.renews_nodes and self._pending:
            self._compute(view.nodes, ranking)
        else:
            self._compute((), ranking)
            self._compute([node for node in view.nodes if node.id not in self._branches], ranking)
        self.rescored = ranking.rescored(view, self._offers)
        level = self._propose(self.rescored, self._offers, ranking)
        if self.expansion.is_one_draw(view):
            return level
        return with_forced(view, level, self.expansion.nodes - len(view.nodes) - len(level))

    def _propose(self, view: TreeView, offers: Mapping[int, Any], ranking: Ranking[Any]) -> Sequence[Proposal]:
        """The next level, from the `offers` of all nodes of the view by id, the root's 0."""
        return ranking.choose(view, offers, self.expansion)

    def _take_in(self, view: TreeView, states: Sequence[State]) -> Ranking[Any]:
        """Follows the view and takes its draft state, without computing anything; returns the view's ranking."""
        if self._rankings.follow(view, self.expansion.children):
            self._forget_offers()
        self._follow(view)
        self._prune({node.id for node in view.nodes})
        if states:
            self._computed_past = min(self._computed_past, self._network.absorb(states, self._past_slots.slots))
        return self._rankings.current

    @property
    def _offers(self) -> Mapping[int, Any]:
        """The ranking's, by id of the node, the root's 0, as far as they are computed."""
        root = {} if self._root_offer is None else {0: self._root_offer}
        return root | {id_: branch.offer for id_, branch in self._branches.items()}

    def _forget_offers(self) -> None:
        self._prune(set())
        self._root_offer = None

    @property
    def _pending(self) -> int:
        """How many positions at the end of the past, the root last, are to be computed."""
        return len(self._past) - self._computed_past

    def _follow(self, view: TreeView) -> None:
        """Re-roots along the sequence, or goes back to where it begins to differ. The ranking learns from the target's
        own tokens alone."""
        tokens = view.tokens
        if self._past != tokens[: len(self._past)]:
            self._go_back(common_prefix(self._past, tokens))
        # `_past` follows once at the end: to copy a long text for each token takes longer than all else here.
        for position, token in enumerate(tokens[len(self._past) :], len(self._past)):
            if position < view.verified_length:
                self._learn(token)
            child = next((i for i, b in self._branches.items() if b.parent == 0 and b.token == token), None)
            if child is None:
                break
            self._take_over(child)
        self._past = tokens
        missing = len(tokens) - len(self._past_slots)
        if missing:
            self._prune(set())
            self._past_slots.append(self._slots.take(missing))
            self._root_offer = None
        if self._root_offer is None:
            self._computed_past = min(self._computed_past, len(tokens) - 1)

    def _learn(self, token: int) -> None:
        """Teaches the ranking that the target committed `token` after the root."""
        if self._root_offer is not None:
            self._rankings.current.learn(self._root_offer, token)

    def _go_back(self, keep: int) -> None:
        self._prune(set())
        self._network.forget(keep)
        self._slots.give(self._past_slots.slots[keep:])
        self._past_slots.cut(keep)
        self._past = self._past[:keep]
        self._computed_past = min(self._computed_past, keep)
        self._root_offer = None

    def _take_over(self, child: int) -> None:
        root = self._branches.pop(child)
        self._computed_past += self._computed_past == len(self._past_slots)
        self._past_slots.append([root.slot])
        self._root_offer = root.offer
        for id_, branch in list(self._branches.items()):
            if branch.parent == child:
                branch.parent = 0
            elif branch.parent == 0 or branch.parent not in self._branches:
                self._slots.give([self._branches.pop(id_).slot])

    def _prune(self, live: set[int]) -> None:
        dead = [id_ for id_ in self._branches if id_ not in live]
        self._slots.give([self._branches.pop(id_).slot for id_ in dead])

    def _read_past(self) -> None:
        """Computes the past in chunks, except for a last chunk, which contains the root."""
        while self._pending > _CHUNK:
            start, end = self._computed_past, self._computed_past + _CHUNK
            self._forward(
                Segment(
                    tokens=self._past[start:end],
                    slots=self._past_slots.slots[start:end],
                    parents=range(-1, _CHUNK - 1),
                    past_slots=self._past_slots.slots[:start],
                )
            )
            self._computed_past = end

    def _compute(self, nodes: Sequence[NodeView], ranking: Ranking[Any]) -> None:
        """Runs the pending part of the past and `nodes` below it through the network, in one forward; nodes whose K/V
        exist are computed again. While anything is pending, no node may be below one that is not in `nodes`."""
        pending, start = self._pending, self._computed_past
        if not pending and not nodes:
            return
        root = pending - 1
        slots = self._slots_of(nodes)
        held = {} if pending else self._branches_beside(nodes)
        index = {id_: i for i, id_ in enumerate([*held, *(node.id for node in nodes)], start=pending)}
        logits = self._forward(
            Segment(
                tokens=[*self._past[start:], *(node.token for node in nodes)],
                slots=[*(branch.slot for branch in held.values()), *self._past_slots.slots[start:].tolist(), *slots],
                parents=[
                    *(index.get(branch.parent, -1) for branch in held.values()),
                    *range(-1, root),
                    *(index.get(node.parent, root) for node in nodes),
                ],
                past_slots=self._past_slots.slots[:start],
                wanted=range(max(0, root), pending + len(nodes)),
            ),
            [*([0] if pending else []), *(node.id for node in nodes)],
        )
        positions = [*([len(self._past)] if pending else []), *(node.position + 1 for node in nodes)]
        before = NOTHING
        if ranking.needs_tokens:
            before = Preceding(Text(self._past), [*([()] if pending else []), *self._paths(nodes)])
        offers = ranking.offers(logits, positions, before)
        if pending:
            self._computed_past = len(self._past)
            self._root_offer = offers.pop(0)
        for node, slot, offer in zip(nodes, slots, offers, strict=True):
            self._branches[node.id] = _Branch(node.parent, node.token, slot, offer)

    def _slots_of(self, nodes: Sequence[NodeView]) -> list[int]:
        """The slots for the K/V of nodes: their present ones, or new ones."""
        held = {node.id: self._branches[node.id].slot for node in nodes if node.id in self._branches}
        fresh = iter(self._slots.take(len(nodes) - len(held)))
        return [held[node.id] if node.id in held else next(fresh) for node in nodes]

    def _branches_beside(self, nodes: Sequence[NodeView]) -> dict[int, _Branch]:
        """Live nodes with K/V that are not in `nodes`, parents first."""
        others = {node.id for node in nodes}
        return {id_: branch for id_, branch in self._branches.items() if id_ not in others}

    def _paths(self, nodes: Sequence[NodeView]) -> list[tuple[int, ...]]:
        """The tokens from below the root to each node, its own included."""
        paths: dict[int, tuple[int, ...]] = {0: ()}
        for id_, branch in self._branches.items():
            paths[id_] = (*paths[branch.parent], branch.token)
        for node in nodes:
            paths[node.id] = (*paths[node.parent], node.token)
        return [paths[node.id] for node in nodes]

    def _forward(self, segment: Segment, ids: Sequence[int] = ()) -> torch.Tensor:
        """`ids`: of the nodes whose logits are wanted, the root's 0."""
        self.computed += len(segment.tokens)
        return self._network.forward(segment)
