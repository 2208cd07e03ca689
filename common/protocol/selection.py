"""Selects the nodes of a pass where not all fit, the likeliest first, and estimates the gain of further nodes. Pure.

Under a rule with sampled groups, siblings are selected together, by their parent's log-probability and their number,
and never by the sampled tokens: the target's distribution would not be kept otherwise.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from common.protocol.tree import Node, TokenTree
from common.protocol.tree_rows import Floats, TreeRows


def likeliest(tree: TokenTree, count: int, room: int) -> Sequence[int]:
    """The rows of the likeliest nodes, at most `count`, parents first; a range where these are the first rows of the
    tree. The answer may gain `room` tokens, the last of which needs no node: those at depths below `room` are of use.
    """
    rows = tree.rows
    if rows.grouped:
        return _likeliest_groups(rows, count, room)
    if rows.deepest < room:
        return range(1, 1 + min(count, len(rows) - 1))
    return [row for row in np.flatnonzero(rows.depths < room).tolist() if row][:count]


def _likeliest_groups(rows: TreeRows, count: int, room: int) -> list[int]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row, parent in enumerate(rows.parents.tolist()):
        groups[parent].append(row)
    logps, depths = rows.logps.tolist(), rows.depths.tolist()
    chosen: list[int] = []
    # By the first child beside: the order in which groups came.
    heap = [(0.0, group[0], group)] if (group := groups.get(0)) else []
    while heap and len(chosen) < count:
        group = heapq.heappop(heap)[2]
        if depths[group[0]] >= room or len(group) > count - len(chosen):
            continue
        chosen += group
        for row in group:
            if below := groups.get(row):
                heapq.heappush(heap, (-logps[row], below[0], below))
    return chosen


def commit_probabilities(trees: Sequence[TreeRows], max_acceptances: Sequence[float]) -> list[Floats]:
    """The probability that each node of each tree is committed, in the order in which a pass takes them. In sampled
    groups, all nodes at one position count alike.

    At most one node at each position is committed, and only below a committed one. The sum at a position is therefore
    limited to the tree's `max_acceptance` to the power of its distance from the root, whatever the drafter claims.
    """
    if not trees:
        return []
    # All trees at once: a few operations over whole arrays cost less than many over small ones.
    sizes = np.array([len(rows) for rows in trees])
    ends = np.cumsum(sizes)
    tree = np.repeat(np.arange(len(trees)), sizes)
    claimed = np.concatenate([np.ones(len(rows)) if rows.grouped else rows.probabilities for rows in trees])
    depths = np.concatenate([rows.depths for rows in trees])
    deepest = max(rows.deepest for rows in trees)
    level = tree * (1 + deepest) + depths
    totals = np.bincount(level, weights=claimed)[level]
    # Products: the last bit of a power depends on the processor.
    factors = np.repeat(np.array(max_acceptances, dtype=np.float64)[:, None], 1 + deepest, axis=1)
    factors[:, 0] = 1.0
    most = np.cumprod(factors, axis=1).ravel()[level]
    believed = claimed * np.divide(most, totals, out=np.ones_like(totals), where=totals > most)
    # The least on the way from the root, in steps that double.
    above = np.maximum(np.concatenate([rows.parents for rows in trees]), 0) + np.repeat(ends - sizes, sizes)
    while deepest > 0:
        believed = np.minimum(believed, believed[above])
        above = above[above]
        deepest //= 2
    order = np.lexsort((-believed, -claimed, depths > 0, tree))
    ranked = believed[order]
    # The root of each tree comes first.
    return [np.minimum.accumulate(ranked[end - size + 1 : end]) for end, size in zip(ends, sizes, strict=True)]


def expected_level_gain(tree: TokenTree, room: int) -> float:
    """The expected tokens that a pass gains from one more level of nodes, in an answer that may gain `room`: about the
    probability that its walk reaches a leaf."""
    rows = tree.rows
    if len(rows) == 1:
        return float(room > 1)
    is_leaf = np.ones(len(rows), dtype=np.bool_)
    is_leaf[rows.parents[1:]] = False
    return float(rows.probabilities[is_leaf & (rows.depths + 1 < room)].sum())


class LevelGain:
    """`expected_level_gain`, computed once for each state of a tree: below one root nodes are only added."""

    def __init__(self) -> None:
        self._computed_for: tuple[Node, int, int] | None = None
        self._level_gain = 0.0

    def of(self, tree: TokenTree, room: int) -> float:
        state = (tree.root, len(tree), room)
        if state != self._computed_for:
            self._computed_for, self._level_gain = state, expected_level_gain(tree, room)
        return self._level_gain
