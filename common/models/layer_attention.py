"""What a layer asks of the running forward instead of attending itself: how families score, and who answers.

It may not know models, slots or masks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import torch

# Shape letters: B rows, Q tokens of each, H query heads, K key/value heads, D head dimension, V dimension of a head's
# values.


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


class Attends(Protocol):
    """The attention of all layers in one forward."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """From `query [B, H, Q, D]`, `key [B, K, Q, D]` and `value [B, K, Q, V]` to `[B * Q, H * V]`. A pass is
        one row, B = 1."""
        ...


_running: ContextVar[Attends | None] = ContextVar("running", default=None)
"""Of this thread. An argument of the forward would not do: some families lose unknown arguments on the way to their
attention."""


@contextmanager
def attending(attends: Attends) -> Iterator[None]:
    """Inside the block, the layers of models that were taken over attend so."""
    before = _running.set(attends)
    try:
        yield
    finally:
        _running.reset(before)


def running_attention() -> Attends:
    """Raises `TypeError` outside of such a block."""
    running = _running.get()
    if running is None:
        raise TypeError("this model belongs to a PackedModel: run it through PackedModel.forward")
    return running
