"""One pass as arrays, computed from its segments once for all layers: tokens, positions, slots to write, ancestry.

It may not know models, layers, K/V contents, sessions' lifecycles, or how attention is computed
(`attention_layout.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch

from common.models.ancestry import Ancestry, trace
from common.models.buckets import Bucket
from common.models.segment import PassInput
from common.models.slot_ranges import split_ranges

# Shape letters: N packed rows, R rows whose logits are wanted.

_SHORTEST_WRITE = 4
"""From so many rows a range on, in the mean, copying ranges is faster than an index (measured on a CPU)."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class TracedSegment:
    """A segment with its integers as arrays and its ancestry computed."""

    first_row: int
    tokens: np.ndarray
    context_slots: np.ndarray
    range_bounds: np.ndarray
    """Where in `context_slots` a range of consecutive slots ends and another begins."""
    past: int
    wanted: np.ndarray
    ancestry: Ancestry

    @property
    def new(self) -> int:
        """The number of its rows in the pass."""
        return len(self.tokens)

    @property
    def written_slots(self) -> np.ndarray:
        """The slots for its new tokens' K/V."""
        return self.context_slots[len(self.context_slots) - self.new :]

    @property
    def branch_positions(self) -> np.ndarray:
        """The position of each branch."""
        positions: np.ndarray = self.ancestry.depths + self.past
        return positions

    @property
    def sees_everything(self) -> bool:
        """Whether its one new token sees its whole context."""
        return self.new == 1 and int(self.ancestry.depths[-1]) == len(self.ancestry.depths) - 1


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """What the attention of every layer needs: which slots to write, and which rows attend to what. No tokens."""

    written_slots: torch.Tensor
    """`[N]`."""
    written_ranges: Sequence[tuple[int, int, int]] | None
    """The same as ranges `(first row, first slot, length)`; `None` where they are too short to pay."""
    segments: Sequence[TracedSegment]
    rows: int
    """N. In a bucket all of its rows; those behind the last segment's see whatever is cheapest."""
    farthest: int
    """The largest position of a row."""
    dtype: torch.dtype
    device: torch.device
    bucket: Bucket | None = None
    """Where the pass has fixed shapes, those to which its layouts are filled up."""
    _built: dict[Any, Any] = field(default_factory=dict)

    def once(self, build: Callable[Concatenate["AttentionPlan", _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """`build(self, ...)`, computed for the first layer that asks for it and kept for the others. With a bucket,
        so that it can be copied into the buffers of a graph, `build` is a function of a module with hashable arguments,
        and what it returns is a tree of dataclasses, mappings, lists, tensors and hashable values."""
        key = build, args, tuple(kwargs.items())
        if key not in self._built:
            self._built[key] = build(self, *args, **kwargs)
        found: _T = self._built[key]
        return found

    @property
    def built(self) -> Mapping[Any, Any]:
        """What `once` has built. Each key is a function, its positional and its named arguments."""
        return self._built

    def with_built(self, written_slots: torch.Tensor, built: Mapping[Any, Any]) -> "AttentionPlan":
        """The same plan, with slots and layouts that lie elsewhere."""
        return replace(self, written_slots=written_slots, device=written_slots.device, _built=dict(built))


@dataclass(frozen=True, eq=False)
class PassPlan:
    """Everything about a pass that is the same in every layer."""

    rows: int
    """How many rows count. Behind them the pass may be filled up."""
    token_ids: torch.Tensor
    """`[1, N]`, zeros where the pass is filled up."""
    positions: torch.Tensor
    """`[1, N]`, likewise."""
    wanted_rows: torch.Tensor
    """`[R]`, likewise behind the `wanted` that count."""
    wanted: int
    attention: AttentionPlan


@dataclass(frozen=True)
class PlanLimits:
    """What a model's plans depend on and are checked against."""

    capacity: int
    vocabulary: int
    dtype: torch.dtype
    device: torch.device
    row_multiple: int = 1
    """Rows are filled up to a multiple of this, and so are those whose logits are wanted."""


def plan_pass(segments: Sequence[PassInput], limits: PlanLimits, bucket: Bucket | None = None) -> PassPlan:
    """With `bucket`, which must hold the pass, filled up to its rows; K/V of the rows that fill it up are written into
    the slot behind the last one of the capacity. Raises `ValueError` as `PackedModel.forward` does."""
    if not segments:
        raise ValueError("a pass needs at least one segment")
    # A few operations over whole arrays cost less than many over small ones.
    pasts = [np.asarray(segment.past_slots, dtype=np.int64) for segment in segments]
    own_slots = [np.asarray(segment.slots, dtype=np.int64) for segment in segments]
    contexts = np.concatenate([slots for pair in zip(pasts, own_slots, strict=True) for slots in pair])
    range_bounds = np.flatnonzero(contexts[1:] - contexts[:-1] != 1) + 1
    traced: list[TracedSegment] = []
    start = rows = bound = 0
    for segment, past, own in zip(segments, pasts, own_slots, strict=True):
        end = start + len(past) + len(own)
        first_bound, bound = bound, int(range_bounds.searchsorted(end))
        asked = segment.wanted
        traced.append(
            TracedSegment(
                first_row=rows,
                tokens=np.asarray(segment.tokens, dtype=np.int64),
                context_slots=contexts[start:end],
                range_bounds=range_bounds[first_bound:bound] - start,
                past=len(past),
                # numpy would iterate over a range.
                wanted=np.arange(asked.start, asked.stop, asked.step)
                if type(asked) is range
                else np.asarray(asked, dtype=np.int64),
                ancestry=trace(segment.parents),
            )
        )
        start, rows = end, rows + traced[-1].new
    tokens = np.concatenate([segment.tokens for segment in traced])
    written = np.concatenate([segment.written_slots for segment in traced])
    _check(traced, tokens, contexts[np.concatenate([[0], range_bounds, range_bounds - 1, [-1]])], written, limits)
    positions = np.concatenate([segment.branch_positions[-segment.new :] for segment in traced])
    wanted = np.concatenate([segment.wanted + segment.first_row for segment in traced])
    filled = -rows % limits.row_multiple if bucket is None else bucket.rows - rows
    wanted_filled = -len(wanted) % limits.row_multiple if bucket is None else bucket.rows - len(wanted)
    filling, wanted_filling = (np.zeros(count, dtype=np.int64) for count in (filled, wanted_filled))
    if bucket is not None:
        written = np.concatenate([written, np.full(filled, limits.capacity)])
    return PassPlan(
        rows=rows,
        token_ids=torch.from_numpy(np.concatenate([tokens, filling])).to(limits.device)[None],
        positions=torch.from_numpy(np.concatenate([positions, filling])).to(limits.device)[None],
        wanted_rows=torch.from_numpy(np.concatenate([wanted, wanted_filling])).to(limits.device),
        wanted=len(wanted),
        attention=AttentionPlan(
            written_slots=torch.from_numpy(written).to(limits.device),
            written_ranges=None if bucket is not None else _written_ranges(written),
            segments=traced,
            rows=rows if bucket is None else bucket.rows,
            farthest=int(positions.max()),
            dtype=limits.dtype,
            device=limits.device,
            bucket=bucket,
        ),
    )


def _check(
    segments: Sequence[TracedSegment],
    tokens: np.ndarray,
    ends_of_ranges: np.ndarray,
    written: np.ndarray,
    limits: PlanLimits,
) -> None:
    # A bad index on a GPU aborts the whole process, so every index is checked before.
    if tokens.min() < 0 or tokens.max() >= limits.vocabulary:
        raise ValueError(f"a token id lies outside the vocabulary of {limits.vocabulary}")
    if ends_of_ranges.min() < 0 or ends_of_ranges.max() >= limits.capacity:
        raise ValueError(f"a slot lies outside a pool of {limits.capacity}")
    wanted = np.concatenate([segment.wanted for segment in segments])
    new = np.repeat([segment.new for segment in segments], [len(segment.wanted) for segment in segments])
    is_outside = (wanted < 0) | (wanted >= new)
    if is_outside.any():
        raise ValueError(f"a wanted row lies outside a segment of {new[is_outside.argmax()]} new tokens")
    ordered = np.sort(written)
    if (ordered[1:] == ordered[:-1]).any():
        raise ValueError("two new tokens share a slot")


def _written_ranges(written: np.ndarray) -> list[tuple[int, int, int]] | None:
    firsts, lengths = split_ranges(written)
    if len(firsts) * _SHORTEST_WRITE > len(written):
        return None
    return list(zip(firsts.tolist(), written[firsts].tolist(), lengths.tolist(), strict=True))
