"""The K/V of a model's layers, in a preallocated pool for each, addressed by slot; and, if asked for, last hidden
states.

It may not know which slots are taken, by whom, or what attends to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

# Shape letters: S slots, X = key/value heads * head dimension, E hidden size.
# ruff: noqa: N815


@dataclass(frozen=True, eq=False)
class KeyValuePool:
    """Keys (rotated to their positions) and values of every layer, `[slots, kv_heads * dim]` each, zeros first. Values
    may have another dimension than keys.

    Heads and dimension are one axis, because rows of a matrix are gathered and scattered fastest.
    """

    keys_SX: tuple[torch.Tensor, ...]
    values_SX: tuple[torch.Tensor, ...]
    hidden_SE: torch.Tensor | None = None
    """The last hidden states, after the final norm."""

    @classmethod
    def allocate(
        cls,
        widths: Sequence[tuple[int, int]],
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        hidden_size: int | None = None,
    ) -> Self:
        """`widths`: of each layer's keys and values of one token. `hidden_size`: of last hidden states, None to keep
        none."""

        def zeros(width: int) -> torch.Tensor:
            return torch.zeros((capacity, width), dtype=dtype, device=device)

        return cls(
            keys_SX=tuple(zeros(keys) for keys, _ in widths),
            values_SX=tuple(zeros(values) for _, values in widths),
            hidden_SE=None if hidden_size is None else zeros(hidden_size),
        )

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self.keys_SX[0].shape[0]
