"""How the rows of a pass reach their contexts: on views of the pool where it is contiguous, gathered elsewhere.

Slots that all rows of a segment see and that follow one another are a view: no mask, no copy. What is left is small:
the tree, the edge of a sliding window, short ranges of slots. It is gathered and masked, several segments in one call.
A row's partial results are merged by their log-sum-exp (Dao et al. 2023, Flash-Decoding; Ye et al. 2025, FlashInfer,
arXiv 2501.01005).

It may not know heads, K/V contents or kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from common.models.plan import AttentionPlan, TracedSegment
from common.models.slot_ranges import split_ranges

# Shape letters: B segments of a group, Q new tokens of its longest segment, C entries of its longest gathered context,
# N packed rows, F query heads per key/value head.
# ruff: noqa: N806

_T = TypeVar("_T")

SHORTEST_VIEW = 64
"""Below so many slots gathering costs less than one more call and its share of the merge (measured on a CPU)."""

CONTEXT_MULTIPLE = 8
"""Masked contexts are padded to this: CUDA's masked attention otherwise copies the mask in every layer."""

GATHER_WORK = 8
"""Gathering a context entry costs about as much as attending to it from this many queries (measured on a CPU)."""

CALL_WORK_ON_CPU = 4_096
CALL_WORK_ELSEWHERE = 262_144
"""How many query-key pairs cost about as much as one more attention call: measured on a CPU with 6 heads of 32,
estimated for a GPU from the cost of a kernel launch. Segments share a call while padding costs less than one."""


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """Slots that all rows of one segment see."""

    rows: slice
    slots: slice


@dataclass(frozen=True, eq=False)
class GatheredSegment:
    """The entries of a segment's context that its views leave."""

    segment: TracedSegment
    entries: np.ndarray
    """Indices into the context, ascending. Those before `segment.past` are committed, the others branches."""
    seen: np.ndarray | None
    """Bool `[new, entries]`; `None` where its one row sees all of them."""

    @property
    def work(self) -> int:
        """The cost of its attention in a call of its own, in query-key pairs."""
        return _work(1, self.segment.new, len(self.entries))


@dataclass(frozen=True, eq=False)
class Group:
    """Gathered segments whose attention is one call, padded to the longest of them. A row is in one group at most."""

    members: Sequence[GatheredSegment]
    rows: torch.Tensor | None
    """`[B * Q]` packed rows of its queries; `None` where they are all rows of the pass in order."""
    unpadded: torch.Tensor | None
    """Which of those `B * Q` rows are no padding; `None` where all are."""
    context_slots: torch.Tensor
    """`[B * C]`; padding repeats a slot of the same segment, so that no session reads another one's values."""
    queries: int
    """Q."""
    context: int
    """C."""
    dtype: torch.dtype
    _masks: dict[int, torch.Tensor | None] = field(default_factory=dict)

    def mask(self, heads_per_kv_head: int) -> torch.Tensor | None:
        """Additive `[B, 1, F * Q, C]`; `None` where all see everything."""
        if heads_per_kv_head not in self._masks:
            self._masks[heads_per_kv_head] = self._build_mask(heads_per_kv_head)
        return self._masks[heads_per_kv_head]

    def _build_mask(self, heads_per_kv_head: int) -> torch.Tensor | None:
        if all(member.seen is None and len(member.entries) == self.context for member in self.members):
            return None
        seen_BQC = np.zeros((len(self.members), self.queries, self.context), dtype=np.bool_)
        for seen_QC, member in zip(seen_BQC, self.members, strict=True):
            new = member.segment.new
            seen_QC[:new, : len(member.entries)] = True if member.seen is None else member.seen
            # A padding row sees what the first row sees: an empty row would be a softmax over nothing.
            seen_QC[new:] = seen_QC[0]
        seen = torch.from_numpy(seen_BQC).to(self.context_slots.device)
        mask_BQC = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
        mask_BQC.masked_fill_(~seen, float("-inf"))
        mask_BFQC = mask_BQC[:, None].expand(-1, heads_per_kv_head, -1, -1)
        return mask_BFQC.reshape(len(self.members), 1, -1, self.context)


@dataclass(frozen=True, eq=False)
class Layout:
    """The attention of one pass in layers of one window and chunk."""

    views: Sequence[View]
    groups: Sequence[Group]
    _built: list[Any] = field(default_factory=list)

    def once(self, build: Callable[[], _T]) -> _T:
        """What the device needs of it, built for the first layer that asks and kept for the others."""
        if not self._built:
            self._built.append(build())
        found: _T = self._built[0]
        return found


def lay_out(plan: AttentionPlan, window: int | None, chunk: int | None, shortest_view: int) -> Layout:
    """For layers whose queries see the last `window` positions of their `chunk`; `None`: all."""
    farthest = max(int(segment.branch_positions.max()) for segment in plan.segments)
    if any(size is not None and farthest < size for size in (window, chunk)):
        window, chunk = (None if size is None or farthest < size else size for size in (window, chunk))
        return plan.once(lay_out, window, chunk, shortest_view)
    views: list[View] = []
    gathered: list[GatheredSegment] = []
    for segment in plan.segments:
        ranges, rest = _split(segment, window, chunk, shortest_view)
        rows = slice(segment.first_row, segment.first_row + segment.new)
        if len(rest):
            gathered.append(GatheredSegment(segment, rest, _seen(segment, rest, window, chunk)))
        views += [View(rows, slots) for slots in ranges]
    groups = [_pad(group, plan) for group in _group(gathered, plan.device)]
    return Layout(views, groups)


def _split(
    segment: TracedSegment, window: int | None, chunk: int | None, shortest_view: int
) -> tuple[list[slice], np.ndarray]:
    """The slots of the segment's views, and the entries of its context that some row sees beside them."""
    slots, past = segment.context_slots, segment.past
    positions = segment.branch_positions[-segment.new :]
    first_seen = _first_seen(positions, window, chunk)
    seen_by_some, seen_by_all = min(int(first_seen.min()), past), int(first_seen.max())
    end = past
    if segment.sees_everything and seen_by_all <= past:
        end = len(slots)
    if end - seen_by_all < shortest_view:
        return [], np.arange(seen_by_some, len(slots))
    firsts, lengths = split_ranges(slots[seen_by_all:end])
    ranges: list[slice] = []
    rest = [np.arange(seen_by_some, seen_by_all)]
    for first, length in zip((firsts + seen_by_all).tolist(), lengths.tolist(), strict=True):
        if length < shortest_view:
            rest.append(np.arange(first, first + length))
        else:
            slot = int(slots[first])
            ranges.append(slice(slot, slot + length))
    return ranges, np.concatenate([*rest, np.arange(end, len(slots))])


def _first_seen(positions: np.ndarray, window: int | None, chunk: int | None) -> np.ndarray:
    """The first position that a query at each position sees."""
    first = np.zeros_like(positions)
    if window is not None:
        first = np.maximum(first, positions - window + 1)
    if chunk is not None:
        first = np.maximum(first, positions // chunk * chunk)
    return first


def _seen(segment: TracedSegment, entries: np.ndarray, window: int | None, chunk: int | None) -> np.ndarray | None:
    new, past = segment.new, segment.past
    committed = int(np.searchsorted(entries, past))
    if window is None and chunk is None and segment.sees_everything:
        return None
    seen = np.ones((new, len(entries)), dtype=np.bool_)
    branches = entries[committed:] - past
    if len(branches):
        seen[:, committed:] = segment.ancestry.seen(new)[:, branches]
    if window is not None or chunk is not None:
        positions = np.concatenate([entries[:committed], segment.branch_positions[branches]])
        seen &= positions >= _first_seen(segment.branch_positions[-new:], window, chunk)[:, None]
    return seen


def _work(segments: int, queries: int, context: int) -> int:
    return segments * (queries + GATHER_WORK) * context


def _group(members: Sequence[GatheredSegment], device: torch.device) -> list[list[GatheredSegment]]:
    """Puts segments of like shape together, the largest first, while padding is cheaper than one more call."""
    call_work = CALL_WORK_ON_CPU if device.type == "cpu" else CALL_WORK_ELSEWHERE
    groups: list[list[GatheredSegment]] = []
    context = 0
    for member in sorted(members, key=lambda each: (each.segment.new, len(each.entries)), reverse=True):
        length = len(member.entries)
        if groups:
            size, queries, widened = len(groups[-1]), groups[-1][0].segment.new, max(context, length)
            added = _work(size + 1, queries, widened) - _work(size, queries, context)
            if added - member.work <= call_work:
                groups[-1].append(member)
                context = widened
                continue
        groups.append([member])
        context = length
    return groups


def _pad(members: Sequence[GatheredSegment], plan: AttentionPlan) -> Group:
    # In packed order, a group that is the whole pass needs no shuffling of rows.
    members = sorted(members, key=lambda each: each.segment.first_row)
    queries = max(member.segment.new for member in members)
    context = max(len(member.entries) for member in members)
    if not all(member.seen is None and len(member.entries) == context for member in members):
        context += -context % CONTEXT_MULTIPLE
    rows = np.empty((len(members), queries), dtype=np.int64)
    slots = np.empty((len(members), context), dtype=np.int64)
    for index, member in enumerate(members):
        segment, length = member.segment, len(member.entries)
        rows[index] = segment.first_row
        rows[index, : segment.new] += np.arange(segment.new)
        slots[index, :length] = segment.context_slots[member.entries]
        slots[index, length:] = slots[index, length - 1]
    news = np.array([member.segment.new for member in members])
    is_padded = bool((news < queries).any())
    unpadded = np.flatnonzero(np.arange(queries) < news[:, None]) if is_padded else None
    in_order = not is_padded and rows.size == plan.rows
    return Group(
        members=members,
        rows=None if in_order else torch.from_numpy(rows.ravel()).to(plan.device),
        unpadded=None if unpadded is None else torch.from_numpy(unpadded).to(plan.device),
        context_slots=torch.from_numpy(slots.ravel()).to(plan.device),
        queries=queries,
        context=context,
        dtype=plan.dtype,
    )
