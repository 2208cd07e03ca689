"""The K/V of a model's layers, in a preallocated pool for each, addressed by slot; and, if asked for, hidden
states.

It may not know which slots are taken, by whom, or what attends to them.
"""

import math
import mmap as memory_maps
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from mmap import ACCESS_COPY, mmap
from typing import NamedTuple, Self

import torch

# Shape letters: S slots, N rows, K key/value heads, D dimension of a head's keys, V of its values, X = K * D,
# E hidden size.
# ruff: noqa: N803, N815

MADV_HUGEPAGE: int | None = getattr(memory_maps, "MADV_HUGEPAGE", None)


def zeros_on_demand(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros for at least one number that take memory where they are written, for a context that is seldom full.
    `torch.zeros` writes all of them. On other devices than the CPU it is the same as that."""
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    # A private anonymous map, whose pages the system makes when they are written.
    pages = mmap(-1, math.prod(shape) * dtype.itemsize, access=ACCESS_COPY)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)


def _zeros_in_large_pages(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros for at least one number that take their memory now, on a CPU in pages of 2 MB where the system has them:
    attention then takes 5 to 15% less (measured on an AMD EPYC). Raises `MemoryError` where there is no room."""
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    try:
        pages = mmap(-1, math.prod(shape) * dtype.itemsize, access=ACCESS_COPY)
    except OSError as error:
        raise MemoryError(str(error)) from error
    # Linux alone has this advice, and a kernel without large pages refuses it.
    if MADV_HUGEPAGE is not None:
        with suppress(OSError):
            pages.madvise(MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(*shape).zero_()


class KeyValueShape(NamedTuple):
    """Of one layer's keys and values of one token. Values may have another dimension than keys."""

    heads: int
    key_dim: int
    value_dim: int


@dataclass(frozen=True, eq=False)
class KeyValuePool:
    """Keys (rotated to their positions) `[K, slots, D]` and values `[K, slots, V]` of every layer, zeros first.

    Head by head, because attention reads one head's keys at all slots of a context, and those that follow one another
    fastest.
    """

    keys_KSD: tuple[torch.Tensor, ...]
    values_KSV: tuple[torch.Tensor, ...]
    hidden_SE: torch.Tensor | None = None
    """The last hidden states, after the final norm."""
    taps_SE: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """By the number of a layer, from 0, the hidden states that enter it; by the number of layers, what leaves them."""
    padding_slots: int = 0
    """Behind those that are anybody's."""

    @classmethod
    def allocate(
        cls,
        shapes: Sequence[KeyValueShape],
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        hidden_size: int,
        keep_hidden: bool = False,
        taps: Collection[int] = (),
        on_demand: bool = False,
        padding_slots: int = 0,
    ) -> Self:
        """`shapes`: of each layer. `hidden_size`: of hidden states, of which the last ones are kept where `keep_hidden`
        says so, and those of `taps`. `on_demand`: memory is taken as slots are written, not now.
        `padding_slots`: beside the capacity, for rows whose K/V nobody reads."""
        slots = capacity + padding_slots

        def zeros(*shape: int) -> torch.Tensor:
            # A map must not be empty: tails of some families have layers without keys.
            if 0 in shape:
                return torch.zeros(shape, dtype=dtype, device=device)
            return (zeros_on_demand if on_demand else _zeros_in_large_pages)(shape, dtype, device)

        return cls(
            keys_KSD=tuple(zeros(shape.heads, slots, shape.key_dim) for shape in shapes),
            values_KSV=tuple(zeros(shape.heads, slots, shape.value_dim) for shape in shapes),
            hidden_SE=zeros(slots, hidden_size) if keep_hidden else None,
            taps_SE={tap: zeros(slots, hidden_size) for tap in taps},
            padding_slots=padding_slots,
        )

    @property
    def capacity(self) -> int:
        """The number of slots without spare ones."""
        return self.keys_KSD[0].shape[1] - self.padding_slots

    @property
    def device(self) -> torch.device:
        return self.keys_KSD[0].device

    @property
    def widths(self) -> set[int]:
        """X of all layers' keys and values."""
        return {held.shape[0] * held.shape[2] for held in (*self.keys_KSD, *self.values_KSV)}

    @property
    def nbytes(self) -> int:
        """Of K/V, and of hidden states where they are kept."""
        return sum(held.nbytes for held in (*self.keys_KSD, *self.values_KSV, *self._states))

    def write(
        self,
        layer: int,
        slots: torch.Tensor,
        keys_KND: torch.Tensor,
        values_KNV: torch.Tensor,
        ranges: Sequence[tuple[int, int, int]] | None = None,
    ) -> None:
        """Puts rows into `slots [N]` of a layer. `ranges` may say the same: `(first row, first slot, length)`."""
        for held, rows in ((self.keys_KSD[layer], keys_KND), (self.values_KSV[layer], values_KNV)):
            if ranges is None:
                held.index_copy_(1, slots, rows)
            else:
                for row, slot, length in ranges:
                    held[:, slot : slot + length] = rows[:, row : row + length]

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[N, X]` each: a layer's keys and values in `slots [N]`, all heads of a token in one row."""
        keys, values = (
            held[layer].index_select(1, slots).transpose(0, 1).flatten(1) for held in (self.keys_KSD, self.values_KSV)
        )
        return keys, values

    def read_last(self, layers: int, slots: torch.Tensor) -> torch.Tensor:
        """`[N, 2 * layers, X]`: of each of the last `layers` layers the keys, then the values, in `slots [N]`. Needs
        layers of one width."""
        first = len(self.keys_KSD) - layers
        return torch.stack([rows for layer in range(first, first + layers) for rows in self.read(layer, slots)], dim=1)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copies what the slots `sources` hold into `targets`, one each, which may be sources of others."""
        moves = [move for move in zip(sources, targets, strict=True) if move[0] != move[1]]
        if not moves:
            return
        origins, destinations = torch.tensor(moves, device=self.device).unbind(1)
        for held in (*self.keys_KSD, *self.values_KSV):
            held.index_copy_(1, destinations, held.index_select(1, origins))
        for held in self._states:
            held.index_copy_(0, destinations, held.index_select(0, origins))

    @property
    def _states(self) -> list[torch.Tensor]:
        return [*([] if self.hidden_SE is None else [self.hidden_SE]), *self.taps_SE.values()]
