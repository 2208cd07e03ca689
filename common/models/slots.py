"""The allocator of K/V slots: ranges of free integers.

It may not know what a slot holds, who owns it, or torch.
"""

from bisect import bisect_left
from heapq import heapify, heappop, heappush

import numpy as np

from common.integers import Integers
from common.models.slot_ranges import split_ranges

_STALE = 64
"""So many entries of ranges that are gone may wait to be met, beside as many as there are ranges."""


class OutOfSlots(Exception):  # noqa: N818 - it is a state of the pool that callers expect
    """More slots were asked for than are free. Nothing was taken."""

    def __init__(self, asked: int, free: int, capacity: int) -> None:
        super().__init__(f"{asked} slots were asked for, but only {free} of {capacity} are free")
        self.asked = asked
        self.free = free
        self.capacity = capacity


class SlotPool:
    """The free ones of the slots `0 .. capacity - 1`."""

    def __init__(self, capacity: int) -> None:
        """Raises `ValueError` unless `capacity` is positive."""
        if capacity < 1:
            raise ValueError(f"a slot pool needs a positive capacity, not {capacity}")
        self.capacity = capacity
        self.free = capacity
        self._taken = np.zeros(capacity, dtype=np.bool_)
        # Free ranges in order: the first slot of each, and the slot behind its last.
        self._starts = [0]
        self._ends = [capacity]
        # A heap of (-length, first slot), the longest first. Entries of ranges that are gone leave it when met.
        self._by_length = [(-capacity, 0)]

    def take(self, count: int) -> list[int]:
        """`count` distinct free slots, all or none, the lowest first.

        Raises `OutOfSlots` when fewer are free and `ValueError` when `count` is negative.
        """
        self._check(count)
        slots: list[int] = []
        while len(slots) < count:
            start = self._starts[0]
            slots += self._cut(0, start, min(self._ends[0], start + count - len(slots)))
        return slots

    def extend(self, last: int | None, count: int) -> list[int]:
        """`count` more slots for a sequence that ends in the slot `last`, `None` for a new one; all or none.

        They follow `last` while those slots are free, so that a sequence is a few ranges, which attention reads where
        they lie. A range that cannot grow goes on in the middle of the largest free one, where it has room to grow and
        leaves as much to the sequence before it.

        Raises as `take` does.
        """
        self._check(count)
        slots: list[int] = []
        if last is not None and count:
            index, room = self._behind(last)
            if room:
                slots += self._cut(index, last + 1, last + 1 + min(room, count))
        while len(slots) < count:
            missing = count - len(slots)
            index = self._longest()
            start, end = self._starts[index], self._ends[index]
            first = start + (max(0, end - start - missing) // 2 if start else 0)
            slots += self._cut(index, first, min(end, first + missing))
        return slots

    def has_range(self, last: int | None, count: int, length: int) -> bool:
        """Whether `count` more slots of a sequence that ends in `last` follow it, or else a free range has `length`."""
        if last is not None and self._behind(last)[1] >= count:
            return True
        if not self._starts:
            return False
        longest = self._longest()
        return self._ends[longest] - self._starts[longest] >= length

    def give(self, slots: Integers) -> None:
        """Returns slots to the pool, all or none.

        Raises `ValueError` when a slot is outside the pool, is not taken, or is named twice.
        """
        if not len(slots):
            return
        returned = np.sort(np.asarray(slots, dtype=np.int64))
        for end in (returned[0], returned[-1]):
            if not 0 <= end < self.capacity:
                raise ValueError(f"slot {end} is outside a pool of {self.capacity} slots")
        is_free = ~self._taken[returned]
        is_free[1:] |= returned[1:] == returned[:-1]
        if is_free.any():
            raise ValueError(f"slot {returned[is_free][0]} was given back twice")
        self._taken[returned] = False
        firsts, lengths = split_ranges(returned)
        for start, length in zip(returned[firsts].tolist(), lengths.tolist(), strict=True):
            self._insert(start, start + length)
        self.free += len(returned)

    def _check(self, count: int) -> None:
        if count < 0:
            raise ValueError(f"cannot take {count} slots")
        if count > self.free:
            raise OutOfSlots(count, self.free, self.capacity)

    def _behind(self, slot: int) -> tuple[int, int]:
        """The index of the free range that begins behind a slot, and its length; 0 where there is none."""
        index = bisect_left(self._starts, slot + 1)
        is_free = index < len(self._starts) and self._starts[index] == slot + 1
        return index, self._ends[index] - slot - 1 if is_free else 0

    def _cut(self, index: int, start: int, end: int) -> range:
        """Takes `start .. end - 1` from the free range of that index."""
        before, behind = self._starts[index], self._ends[index]
        left = [(first, stop) for first, stop in ((before, start), (end, behind)) if first < stop]
        self._starts[index : index + 1] = [first for first, _ in left]
        self._ends[index : index + 1] = [stop for _, stop in left]
        for first, stop in left:
            self._note(first, stop)
        self._taken[start:end] = True
        self.free -= end - start
        return range(start, end)

    def _insert(self, start: int, end: int) -> None:
        """Adds a free range, joined with its neighbours."""
        index = bisect_left(self._starts, start)
        first, stop = index, index
        if index and self._ends[index - 1] == start:
            first, start = index - 1, self._starts[index - 1]
        if index < len(self._starts) and self._starts[index] == end:
            stop, end = index + 1, self._ends[index]
        self._starts[first:stop] = [start]
        self._ends[first:stop] = [end]
        self._note(start, end)

    def _note(self, start: int, end: int) -> None:
        heappush(self._by_length, (start - end, start))
        if len(self._by_length) > 2 * len(self._starts) + _STALE:
            self._by_length = [(first - stop, first) for first, stop in zip(self._starts, self._ends, strict=True)]
            heapify(self._by_length)

    def _longest(self) -> int:
        """The index of the longest free range, of several the first. Some slot must be free."""
        while True:
            length, start = self._by_length[0]
            index = bisect_left(self._starts, start)
            is_there = index < len(self._starts) and self._starts[index] == start
            if is_there and start - self._ends[index] == length:
                return index
            heappop(self._by_length)
