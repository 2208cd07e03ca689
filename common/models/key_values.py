"""The K/V of a model's layers, in a preallocated pool for each, addressed by slot; and, if asked for, last hidden
states.

It may not know which slots are taken, by whom, or what attends to them.
"""

from dataclasses import dataclass
from typing import Self

import torch
from transformers import PreTrainedModel

from common.models.families import key_width

# Shape letters: S slots, X = key/value heads * head dimension, E hidden size.
# ruff: noqa: N815


@dataclass(frozen=True, eq=False)
class KeyValuePool:
    """Keys (rotated to their positions) and values of every layer, `[slots, kv_heads * dim]` each, zeros first.

    Heads and dimension are one axis, because rows of a matrix are gathered and scattered fastest.
    """

    keys_SX: tuple[torch.Tensor, ...]
    values_SX: tuple[torch.Tensor, ...]
    hidden_SE: torch.Tensor | None = None
    """The last hidden states, after the final norm."""

    @classmethod
    def for_model(cls, model: PreTrainedModel, capacity: int, keep_hidden: bool = False) -> Self:
        """`capacity` slots in the model's dtype, on its device. Raises `ValueError` below one slot."""
        if capacity < 1:
            raise ValueError(f"a K/V pool needs a positive capacity, not {capacity}")
        config = model.config

        def allocate() -> tuple[torch.Tensor, ...]:
            return tuple(
                torch.zeros((capacity, key_width(config)), dtype=model.dtype, device=model.device)
                for _ in range(config.num_hidden_layers)
            )

        hidden = None
        if keep_hidden:
            hidden = torch.zeros((capacity, config.hidden_size), dtype=model.dtype, device=model.device)
        return cls(keys_SX=allocate(), values_SX=allocate(), hidden_SE=hidden)

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self.keys_SX[0].shape[0]
