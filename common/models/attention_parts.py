"""Partial results of attention: those of rows to views, without masks, and to gathered contexts, with them.

It may not know layouts of gathered contexts, nor how results are merged.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

import torch

from common.models.attention_kernels import partial_attention
from common.models.attention_layout import Layout
from common.models.layer_attention import Scoring

# Shape letters: N packed rows, K key/value heads, F query heads of each, D head dimension, V dimension of a head's
# values, S slots, n rows of a partial result, B segments that are gathered, Q queries and C context entries of each.
# ruff: noqa: N803, N806

PartialResult: TypeAlias = tuple[slice | torch.Tensor, torch.Tensor, torch.Tensor]
"""Packed rows, what they get from some of the slots that they see, `[K, F, n, V]`, and the log-sum-exp of their scores,
`[K, F, n]`."""


class OverViews(Protocol):
    """The attention of rows to all views of a layout, without masks."""

    def __call__(
        self,
        query_KFND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        layout: Layout,
        scoring: Scoring,
    ) -> Iterator[PartialResult]: ...


def over_views_one_by_one(
    query_KFND: torch.Tensor,
    keys_KSD: torch.Tensor,
    values_KSV: torch.Tensor,
    layout: Layout,
    scoring: Scoring,
) -> Iterator[PartialResult]:
    """One call for each view, which costs next to nothing on a CPU."""
    heads = query_KFND.shape[:2]
    for view in layout.views:
        # Query heads that share a key/value head become further rows of it, so that no key or value is repeated.
        query = query_KFND[:, :, view.rows].flatten(1, 2)
        result, log_sums = partial_attention(
            query[None], keys_KSD[None, :, view.slots], values_KSV[None, :, view.slots], None, scoring
        )
        yield view.rows, result.view(*heads, -1, values_KSV.shape[2]), log_sums.view(*heads, -1)


def over_gathered(
    query_KFnD: torch.Tensor,
    keys_KSD: torch.Tensor,
    values_KSV: torch.Tensor,
    context_slots: torch.Tensor,
    mask: torch.Tensor | None,
    segments: int,
    scoring: Scoring,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`[K, F, n, V]` and `[K, F, n]`: what the rows of B segments, `n = B * Q`, get of their own contexts,
    `context_slots [B * C]`. `mask`: additive `[B, 1, F * Q, C]`."""
    kv_heads, shared, rows, dim = query_KFnD.shape
    query_KFBQD = query_KFnD.reshape(kv_heads, shared, segments, rows // segments, dim)
    query_BKRD = query_KFBQD.permute(2, 0, 1, 3, 4).flatten(2, 3)
    key, value = (
        held.index_select(1, context_slots).view(kv_heads, segments, len(context_slots) // segments, -1).transpose(0, 1)
        for held in (keys_KSD, values_KSV)
    )
    result_BKRV, log_sums_BKR = partial_attention(query_BKRD, key, value, mask, scoring)
    heads = segments, kv_heads, shared, rows // segments
    result = result_BKRV.reshape(*heads, -1).permute(1, 2, 0, 3, 4).flatten(2, 3)
    return result, log_sums_BKR.reshape(heads).permute(1, 2, 0, 3).flatten(2, 3)


def finished(result_KFNV: torch.Tensor, log_sums_KFN: torch.Tensor, sinks_H: torch.Tensor | None) -> torch.Tensor:
    """`[N, H * V]` of merged results. Sinks take their share of the weights (gpt-oss, arXiv 2508.10925)."""
    if sinks_H is not None:
        sinks = sinks_H.view(*result_KFNV.shape[:2], 1).to(log_sums_KFN.dtype)
        share_KFN = (log_sums_KFN - sinks).sigmoid()
        result_KFNV = result_KFNV * share_KFN[..., None]
    return result_KFNV.permute(2, 0, 1, 3).reshape(result_KFNV.shape[2], -1)
