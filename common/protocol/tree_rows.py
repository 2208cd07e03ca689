"""A token tree as the rows of a pass: flat arrays, which grow with the tree and are put into order when a pass is
planned.

It may not know ids, aliases or who proposed a node (`tree.py`), nor which rows a pass takes (`selection.py`).
"""

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.protocol.messages import Draw

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class TreeRows:
    """Row 0 is the root. The others are the live nodes, parents first: the likeliest first, equally likely ones as they
    came; in a tree of groups all as they came. Nothing of it changes, so that a pass may read it while the tree grows.
    """

    tokens: Integers
    parents: Integers
    """The row of each row's parent, -1 for the root's."""
    depths: Integers
    """From the root."""
    deepest: int
    """The largest of them."""
    logps: Floats
    """Log-probabilities that were claimed, from the root."""
    chances: Floats
    """Their probabilities."""
    grouped: bool
    """Whether siblings are one group."""
    draws: Mapping[int, Draw]
    """What the children of a row were drawn from, where they are a group."""

    def __len__(self) -> int:
        return len(self.tokens)


class GrowingRows:
    """Root and nodes of one tree in the order in which they came, the root first. A row is the index of an entry."""

    __slots__ = ("chances", "depths", "draws", "parents", "root_score", "scores", "tokens")

    def __init__(self, root_token: int, root_score: float):
        self.root_score = root_score
        self.tokens = array("q", (root_token,))
        self.parents = array("q", (-1,))
        self.depths = array("q", (0,))
        self.scores = array("d", (root_score,))
        self.chances = array("d", (1.0,))
        self.draws: dict[int, Draw] = {}
        """What the children of a row were drawn from."""

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, score: float, draw: Draw | None) -> int:
        """The row of a node below the row `parent`; no node is likelier than its parent."""
        row = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.scores.append(score)
        # Not numpy's, whose last bit depends on the processor.
        self.chances.append(math.exp(score - self.root_score))
        if draw is not None:
            self.draws[parent] = draw
        return row


def in_order(rows: GrowingRows, grouped: bool) -> TreeRows:
    """The rows as a pass takes them; `grouped` says whether siblings are one group."""
    scores = np.array(rows.scores)
    # Stable, and no node is likelier than its parent: parents stay first.
    order = np.arange(len(scores)) if grouped else np.argsort(-scores, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    above = np.array(rows.parents)[order]
    tokens = np.array(rows.tokens)[order]
    parents = np.where(above < 0, -1, places[above])
    depths = np.array(rows.depths)[order]
    logps = (scores - rows.root_score)[order]
    chances = np.array(rows.chances)[order]
    for column in (tokens, parents, depths, logps, chances):
        column.setflags(write=False)
    draws = dict(rows.draws) if grouped else {}
    return TreeRows(tokens, parents, depths, int(depths.max()), logps, chances, grouped, draws)
