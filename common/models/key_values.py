"""The K/V of a model's layers, in a preallocated pool for each, addressed by slot; and, if asked for, hidden
states.

It may not know which slots are taken, by whom, or what attends to them.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import ACCESS_COPY, mmap
from typing import Self

import torch

# Shape letters: S slots, X = key/value heads * head dimension, E hidden size.
# ruff: noqa: N815


def zeros_on_demand(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros for at least one number that take memory where they are written, for a context that is seldom full.
    `torch.zeros` writes all of them. On other devices than the CPU it is the same as that."""
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    # A private anonymous map, whose pages the system makes when they are written.
    pages = mmap(-1, math.prod(shape) * dtype.itemsize, access=ACCESS_COPY)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)


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
    taps_SE: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """By the number of a layer, from 0, the hidden states that enter it; by the number of layers, what leaves them."""

    @classmethod
    def allocate(
        cls,
        widths: Sequence[tuple[int, int]],
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        hidden_size: int,
        keep_hidden: bool = False,
        taps: Collection[int] = (),
        on_demand: bool = False,
    ) -> Self:
        """`widths`: of each layer's keys and values of one token. `hidden_size`: of hidden states, of which the last
        ones are kept where `keep_hidden` says so, and those of `taps`. `on_demand`: memory is taken as slots are
        written, not now."""

        def zeros(width: int) -> torch.Tensor:
            # A map must not be empty: tails of some families have layers without keys.
            make = zeros_on_demand if on_demand and width else torch.zeros
            return make((capacity, width), dtype=dtype, device=device)

        return cls(
            keys_SX=tuple(zeros(keys) for keys, _ in widths),
            values_SX=tuple(zeros(values) for _, values in widths),
            hidden_SE=zeros(hidden_size) if keep_hidden else None,
            taps_SE={tap: zeros(hidden_size) for tap in taps},
        )

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self.keys_SX[0].shape[0]
