"""A token tree as the rows of a pass: flat arrays, made when a pass is planned.

It may not know ids, aliases or who proposed a node (`tree.py`), nor which rows a pass takes (`selection.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.integers import IntArray
from common.protocol.messages import Draw

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class TreeRows:
    """Row 0 is the root. The others are the live nodes, parents first: the likeliest first, equally likely ones as they
    came; in a tree of groups all as they came. Nothing of it changes, so that a pass may read it while the tree grows.
    """

    tokens: IntArray
    parents: IntArray
    """The row of each row's parent, -1 for the root's."""
    depths: IntArray
    """From the root."""
    deepest: int
    """The largest of them."""
    logps: Floats
    """Log-probabilities that were claimed, from the root."""
    probabilities: Floats
    """Their probabilities."""
    grouped: bool
    """Whether siblings are one group."""
    draws: Mapping[int, Draw]
    """What a row was drawn from, where it was."""

    def __post_init__(self) -> None:
        for column in (self.tokens, self.parents, self.depths, self.logps, self.probabilities):
            column.setflags(write=False)

    def __len__(self) -> int:
        return len(self.tokens)
