"""Attention with fixed shapes, so that it can be captured: that of `SplitAttention` (`attention_backend.py`), filled
up to the bucket of the pass.

Views are read by launches of variable-length attention, whose offsets are tensors of a length that the bucket gives.
All else is gathered in one call with a mask, of every segment at least its own rows, so that no row is without a
result. Nothing that depends on the pass may be a number of the host, or be kept from one layer for the next: a replay
looks at the layout's tensors alone.

It may not know buckets' sizes or how passes are captured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from common.models.attention_cuda import PlacedLaunch, VarlenAttention, is_supported, over_launch
from common.models.attention_layout import SHORTEST_VIEW, GatheredSegment, View, split_context
from common.models.attention_parts import finished, over_gathered
from common.models.buckets import Bucket, NoBucketError, rounded_up
from common.models.layer_attention import Scoring
from common.models.plan import AttentionPlan
from common.models.view_launches import Launch, launches_over

# Shape letters: N rows of the bucket, B segments of it, Q queries and C gathered context entries of each, H query
# heads, K key/value heads, F = H / K, D head dimension, V dimension of a head's values, S slots, P pieces of the row
# that has most, T = N * P.
# ruff: noqa: N803, N806, N815

_CONTEXT_UNIT = 32
_LEAST_MOST_KEYS = 1_024
"""Of the longest piece that a launch is prepared for."""

MOST_PAIRS = 4_194_304
"""Query-key pairs of the gathered call, filling included. Estimated as the work of a few launches."""


@dataclass(frozen=True, eq=False)
class BucketLayout:
    """The attention of one pass in layers of one window and chunk."""

    rows_n: torch.Tensor
    """`[B * Q]` rows of the gathered queries. Filling repeats the segment's first row, or row 0."""
    index_N: torch.Tensor
    """Where in these results each row of the pass is; rows that fill the pass up take those of row 0."""
    context_slots: torch.Tensor
    """`[B * C]`. Filling repeats a slot of the same session, or of the first."""
    mask_B1QC: torch.Tensor
    """Added to scores."""
    launches: Sequence[PlacedLaunch]


class BucketAttention:
    """A backend (`attention_backend.py`) for passes in a bucket."""

    def __init__(self, varlen: VarlenAttention, shortest_view: int = SHORTEST_VIEW):
        self._varlen = varlen
        self._shortest_view = shortest_view

    def attend(
        self,
        plan: AttentionPlan,
        query_HND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        scoring: Scoring,
    ) -> torch.Tensor:
        """`[N, H * V]`. Raises `RuntimeError` where the kernel over views does not compute what the layer asks for."""
        if not is_supported(scoring, keys_KSD, values_KSV):
            raise RuntimeError(
                "variable-length attention takes heads of at most 256 numbers, a multiple of 8, with values as wide as "
                "keys, and computes no capped scores"
            )
        query_KFND = query_HND.reshape(keys_KSD.shape[0], -1, *query_HND.shape[1:])
        kv_heads, shared = query_KFND.shape[:2]
        layout = plan.once(lay_out_bucket, scoring.sliding_window, scoring.chunk, self._shortest_view, kv_heads, shared)
        segments, _, _, context = layout.mask_B1QC.shape
        gathered_KFn, log_sums_KFn = over_gathered(
            query_KFND.index_select(2, layout.rows_n),
            keys_KSD,
            values_KSV,
            layout.context_slots,
            layout.mask_B1QC.expand(-1, shared, -1, -1).reshape(segments, 1, -1, context),
            segments,
            scoring,
        )
        log_sums_KFN = log_sums_KFn.index_select(2, layout.index_N)
        result_KFNV = gathered_KFn.index_select(2, layout.index_N).to(log_sums_KFN.dtype)
        for launch in layout.launches:
            viewed_KFNV, sums_KFN = over_launch(self._varlen, launch, query_KFND, keys_KSD, values_KSV, scoring)
            total_KFN = torch.logaddexp(log_sums_KFN, sums_KFN)
            result_KFNV = result_KFNV.lerp(viewed_KFNV.to(result_KFNV.dtype), (sums_KFN - total_KFN).exp()[..., None])
            log_sums_KFN = total_KFN
        return finished(result_KFNV, log_sums_KFN, scoring.sinks_H).to(query_HND.dtype)


def lay_out_bucket(
    plan: AttentionPlan, window: int | None, chunk: int | None, shortest_view: int, kv_heads: int, shared: int
) -> BucketLayout:
    """For layers whose queries see the last `window` positions of their `chunk`, `None`: all, with so many key/value
    heads and query heads for each. Raises `NoBucketError` where too much is gathered."""
    bucket = plan.bucket
    assert bucket is not None, "the plan has no bucket"
    views: list[View] = []
    gathered: list[GatheredSegment] = []
    for segment in plan.segments:
        ranges, rest = split_context(segment, window, chunk, shortest_view, keep_branches=True)
        rows = slice(segment.first_row, segment.first_row + segment.new)
        gathered.append(GatheredSegment(segment, rest, window, chunk))
        views += [View(rows, slots) for slots in ranges]
    context = rounded_up(max(len(each.entries) for each in gathered), _CONTEXT_UNIT)
    if bucket.segments * bucket.queries * context > MOST_PAIRS:
        raise NoBucketError
    rows_BQ = np.zeros((bucket.segments, bucket.queries), dtype=np.int64)
    slots_BC = np.full((bucket.segments, context), gathered[0].segment.context_slots[0], dtype=np.int64)
    seen_BQC = np.zeros((bucket.segments, bucket.queries, context), dtype=np.bool_)
    # A row that saw nothing would be a softmax over nothing.
    seen_BQC[len(gathered) :, :, 0] = True
    index_N = np.zeros(bucket.rows, dtype=np.int64)
    for number, each in enumerate(gathered):
        first, new, length = each.segment.first_row, each.segment.new, len(each.entries)
        rows_BQ[number] = first
        rows_BQ[number, :new] = own_rows = np.arange(first, first + new)
        index_N[own_rows] = number * bucket.queries + np.arange(new)
        slots_BC[number] = each.segment.context_slots[each.entries[0]]
        slots_BC[number, :length] = each.segment.context_slots[each.entries]
        each.mark_seen(seen_BQC[number])
    mask_B1QC = torch.zeros((bucket.segments, 1, bucket.queries, context), dtype=plan.dtype)
    mask_B1QC.masked_fill_(torch.from_numpy(~seen_BQC[:, None]), float("-inf"))
    launches = launches_over(views, kv_heads, shared)
    # Powers of two: a growing context changes the shapes seldom.
    pieces = 1 << (max((each.most_pieces for each in launches), default=1) - 1).bit_length()
    most_keys = max([_LEAST_MOST_KEYS, *(1 << (each.most_keys - 1).bit_length() for each in launches)])
    given = [*launches, *[None] * (rounded_up(len(launches)) - len(launches))]
    return BucketLayout(
        rows_n=torch.from_numpy(rows_BQ.ravel()).to(plan.device),
        index_N=torch.from_numpy(index_N).to(plan.device),
        context_slots=torch.from_numpy(slots_BC.ravel()).to(plan.device),
        mask_B1QC=mask_B1QC.to(plan.device),
        launches=[_placed(each, bucket, pieces, most_keys, plan.device) for each in given],
    )


def _placed(launch: Launch | None, bucket: Bucket, pieces: int, most_keys: int, device: torch.device) -> PlacedLaunch:
    """Filled up to a bucket whose rows have so many pieces; a launch of nothing where there is none."""
    rows_T = np.zeros(bucket.rows * pieces, dtype=np.int64)
    query_offsets, key_offsets = offsets = np.zeros((2, 2 * bucket.segments * pieces + 1), dtype=np.int32)
    index_PN = np.zeros((pieces, bucket.rows), dtype=np.int64)
    has_piece_PN = np.zeros((pieces, bucket.rows), dtype=np.bool_)
    if launch is not None:
        rows_T[: len(launch.rows_T)] = launch.rows_T
        for own, given in zip(offsets, (launch.query_offsets, launch.key_offsets), strict=True):
            own[: len(given)] = given
            own[len(given) :] = given[-1]
        index_PN, has_piece_PN = launch.piece_index(bucket.rows, pieces)
    return PlacedLaunch(
        rows_T=torch.from_numpy(rows_T).to(device),
        query_offsets=torch.from_numpy(query_offsets).to(device),
        key_offsets=torch.from_numpy(key_offsets).to(device),
        index_PN=torch.from_numpy(index_PN).to(device),
        has_piece_PN1=torch.from_numpy(has_piece_PN[..., None]).to(device),
        most_queries=bucket.rows,
        most_keys=most_keys,
    )
