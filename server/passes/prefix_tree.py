"""The prefix cache: a radix tree over token sequences, whose nodes hold the K/V slots of their tokens (Zheng et al.
2024, RadixAttention, arXiv 2312.07104).

A sequence uses a whole path, from a root to the node with which its cached part ends; nodes that none uses are idle and
stay until their slots are wanted. Each slot of the tree belongs to one node, and nobody writes into it: sequences that
part go on in slots of their own. It may not know sessions, passes, time or what slots hold.
"""

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from weakref import WeakValueDictionary

import numpy as np

from common.models.slots import SlotPool
from common.protocol.prefix import common_prefix


class PrefixNode:
    """Tokens that follow those of its parent, and the slots of their K/V. A root has neither."""

    __slots__ = ("__weakref__", "children", "end", "parent", "slots", "tokens", "users")

    def __init__(self, parent: "PrefixNode | None", tokens: Sequence[int], slots: Sequence[int], users: int):
        self.parent = parent
        self.tokens = array("q", tokens)
        self.slots = array("q", slots)
        self.users = users  # sequences whose path it is part of; not counted at roots
        self.children: dict[int, PrefixNode] = {}  # by their first token
        self.end: int = len(tokens) + (parent.end if parent is not None else 0)  # the position behind its last token

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)


class PrefixTree:
    def __init__(self, pool: SlotPool):
        self.pool = pool
        self.evictable = 0  # slots of idle nodes
        self._evictions = np.zeros(pool.capacity, dtype=np.int64)  # of each slot
        # In the order in which their use ended: a child before its parent, so that the first one is a leaf.
        self._idle: OrderedDict[PrefixNode, None] = OrderedDict()
        # A root lives as long as its nodes, or a sequence that begins there.
        self._roots: WeakValueDictionary[Hashable, PrefixNode] = WeakValueDictionary()

    def root(self, owner: Hashable) -> PrefixNode:
        """Where all sequences of that owner begin, which share nothing with those of others."""
        return self._roots.setdefault(owner, PrefixNode(None, (), (), 0))

    def follow(self, node: PrefixNode, tokens: Sequence[int], length: int) -> tuple[PrefixNode, list[int]]:
        """A sequence of these tokens that uses the path to `node` uses what is cached of its first `length`; returns
        the node with which its path ends then, and the slots from `node` on. Looks at no token but the first behind
        what is cached."""
        slots: list[int] = []
        while node.end < length:
            child = node.children.get(tokens[node.end])
            if child is None:
                break
            same = common_prefix(child.tokens, tokens[node.end : min(child.end, length)])
            node = child if same == len(child.tokens) else self._split(child, same)
            if not node.users:
                self._idle.pop(node, None)
                self.evictable -= same
            node.users += 1
            slots += node.slots
        return node, slots

    def leave(self, node: PrefixNode, length: int) -> PrefixNode:
        """A sequence that uses the path to `node` uses only its first `length` tokens; returns the node with which its
        path ends then."""
        while node.parent is not None and node.start >= length:
            self._lose_user(node)
            node = node.parent
        if node.end == length:
            return node
        upper = self._split(node, length - node.start)
        self._lose_user(node)
        return upper

    def add(self, node: PrefixNode, tokens: Sequence[int], slots: Sequence[int]) -> PrefixNode:
        """A sequence that uses the path to `node` gives the tree the slots of its next tokens, none of which is cached
        there; returns the node with which its path ends then."""
        if node.parent is not None and node.users == 1 and not node.children:
            node.tokens.extend(tokens)
            node.slots.extend(slots)
            node.end += len(tokens)
            return node
        child = PrefixNode(node, tokens, slots, users=1)
        node.children[tokens[0]] = child
        return child

    def evict(self, count: int) -> None:
        """Gives at least `count` slots back to the pool, all idle ones where they are fewer. Whole leaves go, whose use
        ended first."""
        kept = self.evictable - count
        while self._idle and self.evictable > kept:
            leaf, _ = self._idle.popitem(last=False)
            self.evictable -= len(leaf.slots)
            del _parent(leaf).children[leaf.tokens[0]]
            self._evictions[leaf.slots] += 1
            self.pool.give(leaf.slots)

    def evictions(self, slots: np.ndarray) -> np.ndarray:
        """How often each of these slots was evicted: as long as it belongs to the tree and this is the same, it holds
        the same K/V."""
        evictions: np.ndarray = self._evictions[slots]
        return evictions

    def _lose_user(self, node: PrefixNode) -> None:
        node.users -= 1
        if not node.users:
            self._idle[node] = None
            self.evictable += len(node.slots)

    def _split(self, node: PrefixNode, length: int) -> PrefixNode:
        """The first `length` tokens of a node as a node of their own, above the rest, with the same users."""
        parent = _parent(node)
        upper = PrefixNode(parent, node.tokens[:length], node.slots[:length], node.users)
        upper.children[node.tokens[length]] = node
        parent.children[node.tokens[0]] = upper
        node.parent, node.tokens, node.slots = upper, node.tokens[length:], node.slots[length:]
        return upper


def _parent(node: PrefixNode) -> PrefixNode:
    assert node.parent is not None, "a root belongs to nobody"
    return node.parent
