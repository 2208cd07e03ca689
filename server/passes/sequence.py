"""The slots that hold the K/V of one session's processed positions: first those that it shares by the prefix cache,
then its own.

It may not know sessions, trees of tokens, passes or tensors.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from common.integers import Integers
from common.models.slot_sequence import SlotSequence
from server.passes.prefix_tree import PrefixNode, PrefixTree

_LONG_RANGE = 128
"""A sequence goes on in the middle of a free range, so that from this many slots on half of it is a view of attention.
Where the cache fills the pool, ranges have 320 slots in the mean then, and 16 without (see the log)."""

_RANGES = 16  # at least that a pool has room for: in a small one, ranges are shorter

NO_STAMP = -1
"""Of a slot that may hold other K/V at any time."""

_MOST_EVICTED = 8  # leaves, lest a pool in short ranges lose its cache


class HeldSequence:
    """Slots of positions 0, 1, 2, ... of one sequence, which grows and is cut at its end. Its own give way to the
    cache's where both hold the same K/V."""

    def __init__(self, cache: PrefixTree, owner: Hashable):
        """Slots come from the cache's pool. Sequences of one owner share prefixes."""
        self._pool = cache.pool
        self._cache = cache
        self._cached = cache.root(owner)  # the end of its path in the cache
        self._slots = SlotSequence()
        self.cuts = 0  # how often slots were given back, which may hold another's K/V since

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> np.ndarray:
        """The slots in position order. What was returned stays as it is until the next `keep` or `adopt` after a
        `cut`, or an `adopt` of positions that are held."""
        return self._slots.slots

    @property
    def shared(self) -> int:
        """The number of leading positions whose slots belong to the cache."""
        return self._cached.end

    def stamps(self, start: int, end: int) -> np.ndarray:
        """For each of these positions a number with which its slot stands for one K/V for ever, int64; `NO_STAMP` where
        the slot is the sequence's own."""
        stamps = np.full(end - start, NO_STAMP, dtype=np.int64)
        shared = self.slots[start : max(start, min(end, self.shared))]
        stamps[: len(shared)] = self._cache.evictions(shared)
        return stamps

    @property
    def prefix(self) -> Hashable:
        """The same for sequences that share the same positions."""
        return self._cached

    @property
    def prefix_nodes(self) -> Iterator[PrefixNode]:
        """The nodes of its shared prefix, the last first: for each it uses slots of the cache."""
        node = self._cached
        while node.parent is not None:
            yield node
            node = node.parent

    @property
    def frees_slots(self) -> bool:
        """Whether slots become available where it gives back all that it holds."""
        return len(self) > self.shared or self._cached.users == 1

    @property
    def is_followed(self) -> bool:
        """Whether another sequence shares all that this one shares."""
        return self._cached.users > 1

    def take(self, count: int) -> np.ndarray:
        """Slots for the next tokens of a pass, as far as possible behind those that are held. Where there is no long
        range to go on in, some cached prefixes that nobody uses are evicted. No pass may be running.

        Raises OutOfSlots."""
        last = int(self.slots[-1]) if len(self) else None
        length = max(count, min(_LONG_RANGE, self._pool.capacity // _RANGES))
        for _ in range(_MOST_EVICTED):
            if not self._cache.evictable or self._pool.has_range(last, count, length):
                break
            self._cache.evict(1)
        return np.array(self._pool.extend(last, count), dtype=np.int64)

    def keep(self, slots: Integers) -> None:
        """Takes over slots that a pass filled with the next tokens of the sequence."""
        self._slots.append(slots)

    def is_cached(self, token: int) -> bool:
        """Whether the cache holds more of the sequence, if `token` is the first that is not shared."""
        return token in self._cached.children

    def adopt(self, tokens: Sequence[int], length: int) -> None:
        """Shares what the cache holds of the first `length` tokens, of which it may hold fewer. `tokens` are those of
        the whole sequence. Of positions that are held already, its own slots are given back. No pass may be running."""
        start = self.shared
        self._cached, slots = self._cache.follow(self._cached, tokens, length)
        held = min(len(self), self.shared) - start
        if held:
            self._pool.give(self.slots[start : start + held])
            self._slots.replace(start, slots[:held])
            self.cuts += 1
        self.keep(slots[held:])

    def publish(self, tokens: Sequence[int]) -> None:
        """Gives all its own slots to the cache; `tokens` are those of the whole sequence. No pass may be running."""
        self.adopt(tokens, len(self))
        start = self.shared
        if start < len(self):
            self._cached = self._cache.add(self._cached, tokens[start : len(self)], self.slots[start:].tolist())

    def cut(self, length: int) -> None:
        """Gives back the slots of all positions from `length` on. Raises ValueError where fewer are held."""
        if length > len(self):
            raise ValueError(f"{length} positions should be held, but only {len(self)} are")
        if length == len(self):
            return
        self._pool.give(self.slots[max(length, self.shared) :])
        if length < self.shared:
            self._cached = self._cache.leave(self._cached, length)
        self._slots.cut(length)
        self.cuts += 1


def counted_twice(sequences: Iterable[HeldSequence]) -> int:
    """By how much the lengths of sequences exceed the slots that they hold: what several share is held once."""
    nodes = [node for sequence in sequences for node in sequence.prefix_nodes]
    return sum(len(node.slots) for node in nodes) - sum(len(node.slots) for node in set(nodes))
