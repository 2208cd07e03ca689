"""Ranges of consecutive slots in a sequence of slots.

Integers and numpy only. It may not know what slots hold.
"""

import numpy as np


def split_ranges(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices in `slots` at which ranges of consecutive slots begin, and their lengths."""
    if not len(slots):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    bounds = np.concatenate([[0], np.flatnonzero(slots[1:] - slots[:-1] != 1) + 1, [len(slots)]])
    return bounds[:-1], bounds[1:] - bounds[:-1]
