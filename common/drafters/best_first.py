"""Best-first expansion of a tree by cumulative log-probability, one level at a time.

EAGLE-2's expansion (Li et al. 2024, arXiv 2406.16858) without its rounds: every node that is added is expanded in the
next level, and candidates that were not taken remain candidates as long as their parent is live.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from common.protocol.rules import RULES
from common.protocol.views import NodeView, Proposal, TreeView

Candidates = Sequence[tuple[int, float]]
"""(token, log-probability that the target commits it) of possible next tokens of a node, likeliest first."""


@dataclass(frozen=True)
class Expansion:
    """Bounds of the tree: nodes added in a level, children considered of each node, live nodes of the tree, the least
    cumulative probability of a proposed node, and whether a level may go several tokens ahead, where a draft can.
    `draws_once`: a call draws no siblings below those that it has drawn. They would leave later, by a time that depends
    on what they are, and whether a pass finds them must not (docs/sampling.md)."""

    breadth: int = 6
    children: int = 6
    nodes: int = 64
    least_probability: float = 0.02
    ahead: bool = True
    draws_once: bool = False

    @property
    def filling(self) -> "Expansion":
        """For the last level of a round: it takes what room the tree has left from all candidates of all levels, as
        EAGLE-2 chooses its nodes."""
        return replace(self, breadth=self.nodes)

    @property
    def least_logp(self) -> float:
        return math.log(self.least_probability)

    def is_one_draw(self, view: TreeView) -> bool:
        """Whether all that a call may propose for this view is one level of siblings that it draws."""
        return self.draws_once and RULES[view.rule].grouped

    def room(self, view: TreeView) -> int:
        """The most nodes that the next level may add."""
        return min(self.breadth, self.nodes - len(view.nodes))


def choose(view: TreeView, candidates: Mapping[int, Candidates], expansion: Expansion) -> list[Proposal]:
    """The next level: `candidates` of each expanded node by id, 0 for the root; those in the view are skipped."""
    best = heapq.nlargest(expansion.room(view), _open(view, candidates, expansion.least_logp), key=lambda c: c[0])
    return [Proposal(parent, token, logp) for _, parent, token, logp in best]


def scores(view: TreeView) -> dict[int, float]:
    """The cumulative log-probability of each node by id, the root's by 0."""
    return {0: 0.0} | {node.id: node.logp for node in view.nodes}


def rescored(view: TreeView, candidates: Mapping[int, Candidates]) -> TreeView:
    """The view with its nodes' probabilities as they are known now, for others may have proposed them, or older draft
    state. A token that its parent's candidates lack is at most as likely as the least of them."""
    claimed, found = scores(view), {0: 0.0}
    nodes: list[NodeView] = []
    for id_, parent, token, position, logp in view.nodes:
        own = logp - claimed[parent]
        if offered := candidates.get(parent):
            own = next((known for other, known in offered if other == token), min(own, offered[-1][1]))
        found[id_] = found[parent] + own
        nodes.append(NodeView(id_, parent, token, position, found[id_]))
    return replace(view, nodes=tuple(nodes))


def _open(
    view: TreeView, candidates: Mapping[int, Candidates], least: float
) -> Iterator[tuple[float, int, int, float]]:
    above = scores(view)
    taken = {(node.parent, node.token) for node in view.nodes}
    for parent, offered in candidates.items():
        score = above.get(parent, -math.inf)
        for token, logp in offered:
            if score + logp < least:
                break
            if (parent, token) not in taken:
                yield score + logp, parent, token, logp
