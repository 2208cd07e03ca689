"""The slots that hold the K/V of one session's processed positions.

It may not know sessions, trees, passes or tensors.
"""

from collections.abc import Sequence

import numpy as np

from common.models.slots import SlotPool


class HeldSequence:
    """Slots of positions 0, 1, 2, ... of one sequence. Only grows at its end and is only cut there."""

    def __init__(self, pool: SlotPool):
        self._pool = pool
        self._slots = np.empty(0, dtype=np.int64)
        self._length = 0
        self.cuts = 0  # how often slots were given back, which may hold another's K/V since

    def __len__(self) -> int:
        return self._length

    @property
    def slots(self) -> np.ndarray:
        """The slots in position order. What was returned stays as it is until the next `keep` after a `cut`."""
        return self._slots[: self._length]

    def take(self, count: int) -> list[int]:
        """Slots for the next tokens of a pass, as far as possible behind those that are held. Raises OutOfSlots."""
        return self._pool.extend(int(self._slots[self._length - 1]) if self._length else None, count)

    def keep(self, slots: Sequence[int]) -> None:
        """Takes over slots that a pass filled with the next tokens of the sequence."""
        end = self._length + len(slots)
        if end > len(self._slots):
            grown = np.empty(max(64, 2 * end), dtype=np.int64)
            grown[: self._length] = self.slots
            self._slots = grown
        self._slots[self._length : end] = slots
        self._length = end

    def cut(self, length: int) -> None:
        """Gives back the slots of all positions from `length` on. Raises ValueError where fewer are held."""
        if length > self._length:
            raise ValueError(f"{length} positions should be held, but only {self._length} are")
        if length == self._length:
            return
        self._pool.give(self._slots[length : self._length].tolist())
        self._length = length
        self.cuts += 1
