"""How a layer's attention turns queries and keys into weights, as families differ in it.

Plain data. It may not know models, slots or masks.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False, slots=True)
class Scoring:
    scaling: float
    """Of the products of queries and keys."""
    sliding_window: int | None = None
    """A query sees the keys of this many positions, its own last."""
    chunk: int | None = None
    """A query sees the keys from the last multiple of this many positions on (chunked attention)."""
    softcap: float | None = None
    """Scores are bounded to this, softly, before the mask."""
    sinks_H: torch.Tensor | None = None  # noqa: N815 - query heads
    """For each head the score of nothing, which takes its share of the weights."""
