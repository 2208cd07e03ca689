"""How the rows of a pass reach their contexts: on views of the pool where it is contiguous, gathered elsewhere.

Slots that all rows of a segment see and that follow one another are a view: no mask, no copy. What is left is small:
the tree, the edge of a sliding window, short ranges of slots. It is gathered and masked, several segments in one call.
A row's partial results are merged by their log-sum-exp (Dao et al. 2023, Flash-Decoding; Ye et al. 2025, FlashInfer,
arXiv 2501.01005).

It may not know heads, K/V contents or kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from common.models.plan import AttentionPlan, TracedSegment

# Shape letters: B segments of a group, Q new tokens of its longest segment, C entries of its longest gathered context,
# N packed rows, F query heads per key/value head.
# ruff: noqa: N803, N806, N815

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
    window: int | None
    chunk: int | None

    @property
    def sees_all(self) -> bool:
        """Whether its one row sees all of them."""
        return self.window is None and self.chunk is None and self.segment.sees_everything

    def mark_seen(self, seen_QC: np.ndarray) -> None:
        """Sets what each row sees of the entries; rows behind the segment's last see what the first one sees, because
        an empty row would be a softmax over nothing."""
        segment, entries = self.segment, self.entries
        new, past = segment.new, segment.past
        seen = seen_QC[:new, : len(entries)]
        committed = int(entries.searchsorted(past))
        branches = entries[committed:] - past
        seen[:, :committed] = True
        lines = segment.ancestry.seen(new)
        seen[:, committed:] = lines if len(branches) == lines.shape[1] else lines[:, branches]
        if self.window is not None or self.chunk is not None:
            positions = np.concatenate([entries[:committed], segment.branch_positions[branches]])
            seen &= positions >= _first_seen(segment.branch_positions[-new:], self.window, self.chunk)[:, None]
        seen_QC[new:] = seen_QC[0]

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
    mask_BQC: torch.Tensor | None
    """Added to scores; `None` where all see everything."""
    _masks: dict[int, torch.Tensor | None] = field(default_factory=dict)

    def mask(self, heads_per_kv_head: int) -> torch.Tensor | None:
        """Additive `[B, 1, F * Q, C]`; `None` where all see everything."""
        if heads_per_kv_head not in self._masks and self.mask_BQC is not None:
            mask_BFQC = self.mask_BQC[:, None].expand(-1, heads_per_kv_head, -1, -1)
            self._masks[heads_per_kv_head] = mask_BFQC.reshape(len(self.members), 1, -1, self.context)
        return self._masks.get(heads_per_kv_head)


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
    if any(size is not None and plan.farthest < size for size in (window, chunk)):
        window, chunk = (None if size is None or plan.farthest < size else size for size in (window, chunk))
        return plan.once(lay_out, window, chunk, shortest_view)
    views: list[View] = []
    gathered: list[GatheredSegment] = []
    for segment in plan.segments:
        ranges, rest = split_context(segment, window, chunk, shortest_view)
        rows = slice(segment.first_row, segment.first_row + segment.new)
        if len(rest):
            gathered.append(GatheredSegment(segment, rest, window, chunk))
        views += [View(rows, slots) for slots in ranges]
    return Layout(views, [_pad(group, plan) for group in _group(gathered, plan.device)])


def split_context(
    segment: TracedSegment, window: int | None, chunk: int | None, shortest_view: int, *, keep_branches: bool = False
) -> tuple[list[slice], np.ndarray]:
    """The slots of the segment's views, and the entries of its context that some row sees beside them; with
    `keep_branches` all of its branches are among these."""
    slots, past = segment.context_slots, segment.past
    seen_by_some = seen_by_all = 0
    if window is not None or chunk is not None:
        first_seen = _first_seen(segment.branch_positions[-segment.new :], window, chunk)
        seen_by_some, seen_by_all = min(int(first_seen.min()), past), int(first_seen.max())
    end = past
    if segment.sees_everything and seen_by_all <= past and not keep_branches:
        end = len(slots)
    if end - seen_by_all < shortest_view:
        return [], np.arange(seen_by_some, len(slots))
    within = [bound for bound in segment.range_bounds.tolist() if seen_by_all < bound < end]
    ranges: list[slice] = []
    rest = [np.arange(seen_by_some, seen_by_all)]
    for first, last in pairwise([seen_by_all, *within, end]):
        if last - first < shortest_view:
            rest.append(np.arange(first, last))
        else:
            slot = int(slots[first])
            ranges.append(slice(slot, slot + last - first))
    return ranges, np.concatenate([*rest, np.arange(end, len(slots))])


def _first_seen(positions: np.ndarray, window: int | None, chunk: int | None) -> np.ndarray:
    """The first position that a query at each position sees."""
    first = np.zeros_like(positions)
    if window is not None:
        first = np.maximum(first, positions - window + 1)
    if chunk is not None:
        first = np.maximum(first, positions // chunk * chunk)
    return first


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
    is_masked = not all(member.sees_all and len(member.entries) == context for member in members)
    if is_masked:
        context += -context % CONTEXT_MULTIPLE
    firsts = np.array([[member.segment.first_row] for member in members])
    query_index, news = np.arange(queries), np.array([[member.segment.new] for member in members])
    rows = firsts + np.where(query_index < news, query_index, 0)
    slots = np.empty((len(members), context), dtype=np.int64)
    for own, member in zip(slots, members, strict=True):
        length = len(member.entries)
        own[:length] = member.segment.context_slots[member.entries]
        own[length:] = own[length - 1]
    is_padded = bool((news < queries).any())
    unpadded = np.flatnonzero(query_index < news) if is_padded else None
    in_order = not is_padded and rows.size == plan.rows
    return Group(
        members=members,
        rows=None if in_order else torch.from_numpy(rows.ravel()).to(plan.device),
        unpadded=None if unpadded is None else torch.from_numpy(unpadded).to(plan.device),
        context_slots=torch.from_numpy(slots.ravel()).to(plan.device),
        queries=queries,
        context=context,
        mask_BQC=_mask(members, queries, context, plan) if is_masked else None,
    )


def _mask(members: Sequence[GatheredSegment], queries: int, context: int, plan: AttentionPlan) -> torch.Tensor:
    """Additive `[B, Q, C]`."""
    seen_BQC = np.zeros((len(members), queries, context), dtype=np.bool_)
    for seen_QC, member in zip(seen_BQC, members, strict=True):
        member.mark_seen(seen_QC)
    seen = torch.from_numpy(seen_BQC).to(plan.device)
    weights = torch.tensor([float("-inf"), 0.0], dtype=plan.dtype, device=plan.device)
    return torch.where(seen, weights[1], weights[0])
