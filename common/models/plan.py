"""The index tensors and masks of one pass, computed from its segments once for all layers.

It may not know models, layers, K/V contents or sessions' lifecycles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from common.models.ancestry import Ancestry, trace
from common.models.segment import PassInput

# Shape letters: B segments of a group, Q new tokens of its longest segment, C entries of its longest context,
# N packed rows, R rows whose logits are wanted, F query heads per key/value head.
# ruff: noqa: N806

CONTEXT_MULTIPLE = 8
"""Masked contexts are padded to this: CUDA's masked attention otherwise copies the mask in every layer."""

GATHER_WORK = 8
"""Gathering a context entry costs about as much as attending to it from this many queries (measured on a CPU)."""

CALL_WORK_ON_CPU = 4_096
CALL_WORK_ELSEWHERE = 262_144
"""How many query-key pairs cost about as much as one more attention call: measured on a CPU with 6 heads of 32,
estimated for a GPU from the cost of a kernel launch. Segments share a call while padding costs less than one."""


@dataclass(frozen=True, eq=False)
class TracedSegment:
    """A segment with its integers as arrays and its ancestry computed."""

    first_row: int
    tokens: np.ndarray
    context_slots: np.ndarray
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
        return np.asarray(self.ancestry.depths, dtype=np.int64) + self.past

    @property
    def sees_everything(self) -> bool:
        """Whether its one new token sees its whole context."""
        return self.new == 1 and self.ancestry.depths[-1] == len(self.ancestry.depths) - 1

    @property
    def work(self) -> int:
        """The cost of its attention in a call of its own, in query-key pairs."""
        return _work(1, self.new, len(self.context_slots))


@dataclass(frozen=True, eq=False)
class Group:
    """Segments whose attention is one call, padded to the longest of them."""

    segments: Sequence[TracedSegment]
    rows: torch.Tensor | None
    """`[B * Q]` packed rows of its queries; `None` where they are all rows of the pass in order."""
    context_slots: torch.Tensor
    """`[B * C]`; padding repeats a slot of the same segment, so that no session reads another one's values."""
    queries: int
    """Q."""
    context: int
    """C."""
    dtype: torch.dtype
    masks: dict[tuple[int, int | None, int | None], torch.Tensor | None] = field(default_factory=dict)

    def mask(self, heads_per_kv_head: int, window: int | None, chunk: int | None = None) -> torch.Tensor | None:
        """Additive `[B, 1, F * Q, C]` for layers with this sliding window or chunk, both counted in positions; `None`
        where all see everything."""
        shape = heads_per_kv_head, window, chunk
        if shape not in self.masks:
            self.masks[shape] = self._build_mask(*shape)
        return self.masks[shape]

    def _build_mask(self, heads_per_kv_head: int, window: int | None, chunk: int | None) -> torch.Tensor | None:
        last_position = max(int(segment.past + max(segment.ancestry.depths)) for segment in self.segments)
        if any(size is not None and last_position < size for size in (window, chunk)):
            kept = [None if size is None or last_position < size else size for size in (window, chunk)]
            return self.mask(heads_per_kv_head, *kept)
        uniform = all(len(segment.context_slots) == self.context for segment in self.segments)
        if window is None and chunk is None and uniform and all(segment.sees_everything for segment in self.segments):
            return None
        seen_BQC = np.zeros((len(self.segments), self.queries, self.context), dtype=np.bool_)
        for seen_QC, segment in zip(seen_BQC, self.segments, strict=True):
            new, past, length = segment.new, segment.past, len(segment.context_slots)
            seen_QC[:new, :past] = True
            seen_QC[:new, past:length] = segment.ancestry.seen(new)
            if window is not None or chunk is not None:
                queries = segment.branch_positions[-new:, None]
                context = np.concatenate([np.arange(past), segment.branch_positions])[None, :]
                seen_QC[:new, :length] &= queries - context < (window or length)
                seen_QC[:new, :length] &= queries // (chunk or length) == context // (chunk or length)
            # A padding row sees what the first row sees: an empty row would be a softmax over nothing.
            seen_QC[new:] = seen_QC[0]
        seen = torch.from_numpy(seen_BQC).to(self.context_slots.device)
        mask_BQC = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
        mask_BQC.masked_fill_(~seen, float("-inf"))
        mask_BFQC = mask_BQC[:, None].expand(-1, heads_per_kv_head, -1, -1)
        return mask_BFQC.reshape(len(self.segments), 1, -1, self.context)


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """What the attention of every layer needs: which slots to write, and which to attend to. No tokens."""

    written_slots: torch.Tensor
    """`[N]`."""
    groups: Sequence[Group]
    packed_order: torch.Tensor | None
    """`[N]`: where each packed row lies in the groups' results laid end to end; `None` where in order."""


@dataclass(frozen=True, eq=False)
class PassPlan:
    """Everything about a pass that is the same in every layer."""

    token_ids: torch.Tensor
    """`[1, N]`."""
    positions: torch.Tensor
    """`[1, N]`."""
    wanted_rows: torch.Tensor
    """`[R]`."""
    attention: AttentionPlan


@dataclass(frozen=True)
class PlanLimits:
    """What a model's plans depend on and are checked against."""

    capacity: int
    vocabulary: int
    dtype: torch.dtype
    device: torch.device


def plan_pass(segments: Sequence[PassInput], limits: PlanLimits) -> PassPlan:
    """Raises `ValueError` as `PackedModel.forward` does."""
    if not segments:
        raise ValueError("a pass needs at least one segment")
    traced: list[TracedSegment] = []
    rows = 0
    for segment in segments:
        past = np.asarray(segment.past_slots, dtype=np.int64)
        parents = segment.parents.tolist() if isinstance(segment.parents, np.ndarray) else segment.parents
        traced.append(
            TracedSegment(
                first_row=rows,
                tokens=np.asarray(segment.tokens, dtype=np.int64),
                context_slots=np.concatenate([past, np.asarray(segment.slots, dtype=np.int64)]),
                past=len(past),
                wanted=np.asarray(segment.wanted, dtype=np.int64),
                ancestry=trace(parents),
            )
        )
        rows += traced[-1].new
    tokens = np.concatenate([segment.tokens for segment in traced])
    written = np.concatenate([segment.written_slots for segment in traced])
    _check(traced, tokens, written, limits)
    positions = np.concatenate([segment.branch_positions[-segment.new :] for segment in traced])
    wanted = np.concatenate([segment.wanted + segment.first_row for segment in traced])
    groups = [_pad(group, len(tokens), limits) for group in _group(traced, limits.device)]
    return PassPlan(
        token_ids=torch.from_numpy(tokens).to(limits.device)[None],
        positions=torch.from_numpy(positions).to(limits.device)[None],
        wanted_rows=torch.from_numpy(wanted).to(limits.device),
        attention=AttentionPlan(
            written_slots=torch.from_numpy(written).to(limits.device),
            groups=groups,
            packed_order=None if groups[0].rows is None else torch.from_numpy(_packed_order(groups)).to(limits.device),
        ),
    )


def _check(segments: Sequence[TracedSegment], tokens: np.ndarray, written: np.ndarray, limits: PlanLimits) -> None:
    # A bad index on a GPU aborts the whole process, so every index is checked before.
    if tokens.min() < 0 or tokens.max() >= limits.vocabulary:
        raise ValueError(f"a token id lies outside the vocabulary of {limits.vocabulary}")
    for segment in segments:
        slots = segment.context_slots
        if slots.min() < 0 or slots.max() >= limits.capacity:
            raise ValueError(f"a slot lies outside a pool of {limits.capacity}")
        wanted = segment.wanted
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= segment.new):
            raise ValueError(f"a wanted row lies outside a segment of {segment.new} new tokens")
    if len(set(written.tolist())) < len(written):
        raise ValueError("two new tokens share a slot")


def _work(segments: int, queries: int, context: int) -> int:
    return segments * (queries + GATHER_WORK) * context


def _group(segments: Sequence[TracedSegment], device: torch.device) -> list[list[TracedSegment]]:
    """Puts segments of like shape together, the largest first, while padding is cheaper than one more call."""
    call_work = CALL_WORK_ON_CPU if device.type == "cpu" else CALL_WORK_ELSEWHERE
    groups: list[list[TracedSegment]] = []
    context = 0
    for segment in sorted(segments, key=lambda each: (each.new, len(each.context_slots)), reverse=True):
        length = len(segment.context_slots)
        if groups:
            size, queries, widened = len(groups[-1]), groups[-1][0].new, max(context, length)
            added = _work(size + 1, queries, widened) - _work(size, queries, context)
            if added - segment.work <= call_work:
                groups[-1].append(segment)
                context = widened
                continue
        groups.append([segment])
        context = length
    return groups


def _pad(segments: Sequence[TracedSegment], rows_of_pass: int, limits: PlanLimits) -> Group:
    # In packed order, a group that is the whole pass needs no shuffling of rows.
    segments = sorted(segments, key=lambda each: each.first_row)
    queries = max(segment.new for segment in segments)
    context = max(len(segment.context_slots) for segment in segments)
    if not all(each.sees_everything and len(each.context_slots) == context for each in segments):
        context += -context % CONTEXT_MULTIPLE
    rows = np.empty((len(segments), queries), dtype=np.int64)
    slots = np.empty((len(segments), context), dtype=np.int64)
    for index, segment in enumerate(segments):
        rows[index] = segment.first_row
        rows[index, : segment.new] += np.arange(segment.new)
        length = len(segment.context_slots)
        slots[index, :length] = segment.context_slots
        slots[index, length:] = segment.context_slots[-1]
    # Padding can bring a part of the pass to the size of the whole, so the size alone proves nothing.
    in_order = sum(segment.new for segment in segments) == rows.size == rows_of_pass
    return Group(
        segments=segments,
        rows=None if in_order else torch.from_numpy(rows.ravel()).to(limits.device),
        context_slots=torch.from_numpy(slots.ravel()).to(limits.device),
        queries=queries,
        context=context,
        dtype=limits.dtype,
    )


def _packed_order(groups: Sequence[Group]) -> np.ndarray:
    rows = sum(segment.new for group in groups for segment in group.segments)
    order = np.empty(rows, dtype=np.int64)
    start = 0
    for group in groups:
        for segment in group.segments:
            order[segment.first_row : segment.first_row + segment.new] = start + np.arange(segment.new)
            start += group.queries
    return order
