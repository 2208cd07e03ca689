"""The slots of a sequence's positions, as an array that grows. It may not know who owns a slot, or what it holds."""

import numpy as np

from common.integers import IntArray, Integers

_LEAST = 64


class SlotSequence:
    """Slots of positions 0, 1, 2, ..., which grow and are cut at the end."""

    def __init__(self) -> None:
        self._held = np.empty(0, dtype=np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def slots(self) -> IntArray:
        """In position order. A view, for reading alone: it stays as it is until the next `append` after a `cut`, or a
        `replace`."""
        return self._held[: self._length]

    def append(self, slots: Integers) -> None:
        end = self._length + len(slots)
        if end > len(self._held):
            grown = np.empty(max(_LEAST, 2 * end), dtype=np.int64)
            grown[: self._length] = self.slots
            self._held = grown
        self._held[self._length : end] = slots
        self._length = end

    def replace(self, start: int, slots: Integers) -> None:
        """Other slots for as many positions from `start` on, all of which are there."""
        self.slots[start : start + len(slots)] = slots

    def cut(self, length: int) -> None:
        """Forgets the slots of all positions from `length` on; there may be fewer."""
        self._length = min(self._length, length)
