"""Ancestors and depth of each branch of a segment.

Integers and numpy only. It may not know tokens, slots, positions or torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

import numpy as np

from common.integers import Integers


@dataclass(frozen=True, eq=False)
class Ancestry:
    """The branches of one segment."""

    parents: Sequence[int]
    """For each branch the index of its parent, -1 for the past."""
    depths: np.ndarray
    """For each branch, the number of branches between it and the past."""
    lines: Sequence[int]
    """For each branch a bit set: bit i is set where branch i is the branch itself or an ancestor of it."""

    def seen(self, count: int) -> np.ndarray:
        """Bool `[count, branches]`: which branches each of the last `count` branches attends to."""
        branches = len(self.lines)
        width = (branches + 7) // 8
        packed = b"".join(map(methodcaller("to_bytes", width, "little"), self.lines[branches - count :]))
        bytes_of_rows = np.frombuffer(packed, dtype=np.uint8).reshape(count, width)
        return np.unpackbits(bytes_of_rows, axis=1, count=branches, bitorder="little").view(np.bool_)


def trace(segment: Integers) -> Ancestry:
    """Follows each branch to the past; a segment is its `parents`, as in `Segment`.

    Integers serve as the bit sets because one `or` per branch then replaces a loop over its ancestors.
    Raises `ValueError` where a parent does not precede its child.
    """
    parents: Sequence[int] = segment.tolist() if isinstance(segment, np.ndarray) else segment
    # The last entry stands for the past, which is the parent -1.
    depths = [-1] * (len(parents) + 1)
    lines = [0] * (len(parents) + 1)
    bit = 1
    for index, parent in enumerate(parents):
        if not -1 <= parent < index:
            raise ValueError(f"branch {index} names {parent} as its parent, which does not precede it")
        depths[index] = depths[parent] + 1
        lines[index] = lines[parent] | bit
        bit <<= 1
    return Ancestry(parents, np.array(depths[:-1], dtype=np.int64), lines[:-1])
