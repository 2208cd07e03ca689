"""Received draft state by position, with gaps: the keys and values of cross-attention, and the target's own K/V.

What may live here: storing, replacing and dropping it. It may not know frames, encodings, trees or drafting.
"""

from dataclasses import replace

import torch

from common.draft_models.layers import Attention, full_attention
from common.drafters.drafter import NOTHING
from common.integers import Integers
from common.models.attention import pool_for
from common.models.decoder import CausalLm
from common.models.key_values import zeros_on_demand
from common.models.plan import PassPlan

# Shape letters: C positions of a full context, S received states, K key/value heads, D head dimension, N tail layers,
# X width of a layer's keys.
# ruff: noqa: N803, N806


class ReceivedKeyValues:
    """Keys and values of received positions, for cross-attention. Attention does not depend on their order."""

    def __init__(self, kv_heads: int, head_dim: int, context: int, like: torch.Tensor):
        """`like` gives dtype and device."""
        shape = (kv_heads, context, head_dim)
        self._keys_KCD, self._values_KCD = (zeros_on_demand(shape, like.dtype, like.device) for _ in range(2))
        self._rows: dict[int, int] = {}  # position -> row, dense and in order of arrival
        self.newest = NOTHING
        """The last position whose state has arrived, NOTHING where none has."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def attention(self) -> Attention:
        """Of any queries to all of them."""
        return full_attention if len(self) else nothing_received

    def keys_values(self) -> tuple[torch.Tensor, torch.Tensor]:
        """`[1, K, S, D]` each, in order of arrival."""
        return self._keys_KCD[None, :, : len(self)], self._values_KCD[None, :, : len(self)]

    def put(self, start: int, keys_KSD: torch.Tensor, values_KSD: torch.Tensor) -> None:
        """Those of positions from `start`, in place of what was there."""
        positions = range(start, start + keys_KSD.shape[1])
        for position in positions:
            self._rows.setdefault(position, len(self._rows))
        self.newest = max(self.newest, positions[-1])
        rows = torch.tensor([self._rows[position] for position in positions], device=keys_KSD.device)
        self._keys_KCD.index_copy_(1, rows, keys_KSD)
        self._values_KCD.index_copy_(1, rows, values_KSD)

    def forget(self, keep: int) -> None:
        """Drops positions from `keep` on."""
        kept = [position for position in self._rows if position < keep]
        if len(kept) == len(self._rows):
            return
        rows = torch.tensor([self._rows[position] for position in kept], dtype=torch.long, device=self._keys_KCD.device)
        for held in (self._keys_KCD, self._values_KCD):
            held[:, : len(kept)] = held.index_select(1, rows)
        self._rows = {position: row for row, position in enumerate(kept)}
        self.newest = max(kept, default=NOTHING)


class TailKeyValues:
    """The tail's K/V pool, in which the target's own replace the draft's wherever they have arrived."""

    def __init__(self, tail: CausalLm, capacity: int, context: int):
        self.pool = pool_for(tail, capacity + 1, on_demand=True)
        heads, _, head_dim = self.pool.keys_KSD[0].shape
        self.width = heads * head_dim
        """X: numbers of a layer's keys."""
        self._arrived = ArrivedPositions(context, aside=capacity, device=tail.device)

    def add(self, start: int, values: torch.Tensor, past_slots: Integers) -> None:
        """`values [S, N, 2, X]` of committed positions from `start`, which lie in `past_slots`."""
        slots = self._arrived.add(start, len(values), past_slots)
        for layer, keys_KSD in enumerate(self.pool.keys_KSD):
            rows = values[: len(slots), layer].view(len(slots), 2, keys_KSD.shape[0], -1)
            self.pool.write(layer, slots, *rows.permute(1, 2, 0, 3))

    def spare_arrived(self, plan: PassPlan) -> PassPlan:
        """As `ArrivedPositions.spare`."""
        return self._arrived.spare(plan)

    def forget(self, keep: int) -> None:
        self._arrived.forget(keep)


class ArrivedPositions:
    """Which committed positions have K/V of the target's making, that a draft's own may not replace."""

    def __init__(self, context: int, aside: int, device: torch.device):
        """`aside`: a slot that no query attends to."""
        self._aside = aside
        self._arrived_C = torch.zeros(context, dtype=torch.bool, device=device)
        self.newest = NOTHING
        """The last such position, NOTHING for none."""

    def add(self, start: int, count: int, past_slots: Integers) -> torch.Tensor:
        """The slots of `count` committed positions from `start`, which have arrived."""
        slots = torch.tensor(past_slots[start : start + count], dtype=torch.long, device=self._arrived_C.device)
        self._arrived_C[start : start + len(slots)] = True
        if len(slots):
            self.newest = max(self.newest, start + len(slots) - 1)
        return slots

    def spare(self, plan: PassPlan) -> PassPlan:
        """The plan, its writes of K/V that have arrived diverted to an unused slot, so that they stay."""
        arrived = self._arrived_C[plan.positions[0].clamp(max=len(self._arrived_C) - 1)]
        written_slots = plan.attention.written_slots.masked_fill(arrived, self._aside)
        return replace(plan, attention=replace(plan.attention, written_slots=written_slots, written_ranges=None))

    def forget(self, keep: int) -> None:
        self._arrived_C[keep:] = False
        if self.newest >= keep:
            found = self._arrived_C.nonzero()
            self.newest = int(found[-1]) if len(found) else NOTHING


def nothing_received(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """An `Attention` to no source."""
    return queries.new_zeros(queries.shape[0], queries.shape[2], queries.shape[1] * queries.shape[3])
