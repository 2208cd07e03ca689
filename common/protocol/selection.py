"""Selects the nodes of a pass where not all fit, the likeliest first, and estimates the gain of further nodes. Pure.

Under a rule with sampled groups, siblings are selected together, by their parent's log-probability and their number,
and never by the sampled tokens: the target's distribution would not be kept otherwise.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter

from common.protocol.tree import Node, TokenTree

_Group = Sequence[Node]
_SCORE = attrgetter("score")


def likeliest(tree: TokenTree, count: int, last: int) -> tuple[Node, ...]:
    """The likeliest nodes at positions below `last`, at most `count`, parents first."""
    if not tree.grouped:
        # No node is likelier than its parent, and a stable sort leaves equally likely ones in the order of `nodes`.
        ranked = sorted((node for node in tree.nodes() if node.position < last), key=_SCORE, reverse=True)
        return tuple(ranked[:count])
    chosen: list[Node] = []
    heap = _ranked(tree.root)
    heapq.heapify(heap)
    while heap and len(chosen) < count:
        group = heapq.heappop(heap)[2]
        if group[0].position >= last or len(group) > count - len(chosen):
            continue
        chosen += group
        for node in group:
            for below in _ranked(node):
                heapq.heappush(heap, below)
    return tuple(chosen)


def commit_probabilities(tree: TokenTree, max_acceptance: float = 1.0) -> list[float]:
    """The probability that each node is committed, in the order in which a pass takes them. In sampled groups, all
    nodes at one position count alike.

    At most one node at each position is committed, and only below a committed one. The sum at a position is therefore
    limited to `max_acceptance` to the power of its distance from the root, whatever the drafter claims.
    """
    root = tree.root
    nodes = list(tree.nodes())
    claimed = [1.0 if tree.grouped else math.exp(node.score - root.score) for node in nodes]
    totals: defaultdict[int, float] = defaultdict(float)
    for node, chance in zip(nodes, claimed, strict=True):
        totals[node.position] += chance
    # Where the total underflows to 0, nodes add nothing.
    shares = {
        position: min(1.0, max_acceptance ** (position - root.position) / total) if total else 0.0
        for position, total in totals.items()
    }
    believed: dict[Node | None, float] = {root: 1.0}
    for node, chance in zip(nodes, claimed, strict=True):
        believed[node] = min(believed[node.parent], chance * shares[node.position])
    del believed[root]
    ranked = sorted(zip(claimed, believed.values(), strict=True), reverse=True)
    return list(accumulate((chance for _, chance in ranked), min))


def expected_level_gain(tree: TokenTree, last: int) -> float:
    """The expected tokens that a pass gains from one more level of nodes, at positions below `last`: about the
    probability that its walk reaches a leaf."""
    if not tree.root.children:
        return float(tree.frontier < last)
    origin = tree.root.score
    return sum(math.exp(node.score - origin) for node in tree.nodes() if not node.children and node.position + 1 < last)


def _ranked(parent: Node) -> list[tuple[float, int, _Group]]:
    children = list(parent.children.values())
    return [(-parent.score, children[0].id, children)] if children else []


class LevelGain:
    """`expected_level_gain`, computed once for each state of a tree: below one root nodes are only added."""

    def __init__(self) -> None:
        self._computed_for: tuple[Node, int, int] | None = None
        self._level_gain = 0.0

    def of(self, tree: TokenTree, limit: int) -> float:
        state = (tree.root, len(tree), limit)
        if state != self._computed_for:
            self._computed_for, self._level_gain = state, expected_level_gain(tree, limit)
        return self._level_gain
