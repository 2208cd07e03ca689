"""The allocator of K/V slots: a free list of integers.

It may not know what a slot holds, who owns it, or torch.
"""

from collections.abc import Iterable


class OutOfSlots(Exception):  # noqa: N818 - it is a state of the pool that callers expect
    """More slots were asked for than are free. Nothing was taken."""

    def __init__(self, asked: int, free: int, capacity: int) -> None:
        super().__init__(f"{asked} slots were asked for, but only {free} of {capacity} are free")
        self.asked = asked
        self.free = free
        self.capacity = capacity


class SlotPool:
    """A free list of the slots `0 .. capacity - 1`."""

    def __init__(self, capacity: int) -> None:
        """Raises `ValueError` unless `capacity` is positive."""
        if capacity < 1:
            raise ValueError(f"a slot pool needs a positive capacity, not {capacity}")
        self.capacity = capacity
        self._free = list(range(capacity - 1, -1, -1))
        self._taken = bytearray(capacity)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """`count` distinct free slots, all or none; a fresh pool hands them out in order.

        Raises `OutOfSlots` when fewer are free and `ValueError` when `count` is negative.
        """
        if count < 0:
            raise ValueError(f"cannot take {count} slots")
        if count > len(self._free):
            raise OutOfSlots(count, len(self._free), self.capacity)
        if count == 0:
            return []
        slots = self._free[: -count - 1 : -1]
        del self._free[-count:]
        for slot in slots:
            self._taken[slot] = 1
        return slots

    def give(self, slots: Iterable[int]) -> None:
        """Returns slots to the pool, all or none.

        Raises `ValueError` when a slot is outside the pool, is not taken, or is named twice.
        """
        returned = [int(slot) for slot in slots]
        named: set[int] = set()
        for slot in returned:
            if not 0 <= slot < self.capacity:
                raise ValueError(f"slot {slot} is outside a pool of {self.capacity} slots")
            if slot in named or not self._taken[slot]:
                raise ValueError(f"slot {slot} was given back twice")
            named.add(slot)
        for slot in returned:
            self._taken[slot] = 0
        # Reversed, so that the next take returns them in the same order and neighbours stay adjacent.
        self._free.extend(reversed(returned))
