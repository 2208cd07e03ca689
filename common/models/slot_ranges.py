"""Ranges of consecutive slots in a sequence of slots.

Integers and numpy only. It may not know what slots hold.
"""

import numpy as np


def split_ranges(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices in `slots` at which ranges of consecutive slots begin, and their lengths."""
    firsts = np.flatnonzero(np.diff(slots, prepend=slots[:1] - 2) != 1)
    return firsts, np.diff(firsts, append=len(slots))
