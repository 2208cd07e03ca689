"""The K/V of a model's layers, in a preallocated pool for each, addressed by slot; and, if asked for, hidden
states.

It may not know which slots are taken, by whom, or what attends to them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

import torch

from common.models.decoder import CausalLm
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
    taps_SE: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """By the number of a layer, from 0, the hidden states that enter it; by the number of layers, what leaves them."""

    @classmethod
    def for_model(cls, model: CausalLm, capacity: int, keep_hidden: bool = False, taps: Collection[int] = ()) -> Self:
        """`capacity` slots in the model's dtype, on its device. Raises `ValueError` below one slot."""
        if capacity < 1:
            raise ValueError(f"a K/V pool needs a positive capacity, not {capacity}")
        config = model.config

        def allocate() -> tuple[torch.Tensor, ...]:
            return tuple(
                torch.zeros((capacity, key_width(config)), dtype=model.dtype, device=model.device)
                for _ in range(config.num_hidden_layers)
            )

        def allocate_hidden() -> torch.Tensor:
            return torch.zeros((capacity, config.hidden_size), dtype=model.dtype, device=model.device)

        return cls(
            keys_SX=allocate(),
            values_SX=allocate(),
            hidden_SE=allocate_hidden() if keep_hidden else None,
            taps_SE={tap: allocate_hidden() for tap in taps},
        )

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self.keys_SX[0].shape[0]
