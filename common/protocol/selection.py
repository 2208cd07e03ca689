"""Which nodes of a tree a pass takes where not all fit: the likeliest, parents first. Pure.

Under a rule that judges groups, siblings go together and their place depends on nothing that was drawn for them: on
their parent's log-probability and on how many they are.
"""

import heapq
from collections.abc import Sequence

from common.protocol.tree import Node, TokenTree

_Group = Sequence[Node]


def likeliest(tree: TokenTree, count: int, last: int) -> tuple[Node, ...]:
    """At most `count` nodes at positions below `last`."""
    chosen: list[Node] = []
    heap = _ranked(tree, tree.root)
    heapq.heapify(heap)
    while heap and len(chosen) < count:
        group = heapq.heappop(heap)[2]
        if group[0].position >= last or len(group) > count - len(chosen):
            continue
        chosen += group
        for node in group:
            for ranked in _ranked(tree, node):
                heapq.heappush(heap, ranked)
    return tuple(chosen)


def _ranked(tree: TokenTree, parent: Node) -> list[tuple[float, int, _Group]]:
    children = list(parent.children.values())
    if not tree.grouped:
        return [(-child.score, child.id, [child]) for child in children]
    return [(-parent.score, children[0].id, children)] if children else []
