"""How attention is computed in one layer of a pass: what a backend is, the one that is used where nothing else is asked
for, and the merge of partial results.

It may not know models, families, or who calls it.
"""

from functools import cache
from typing import Protocol

import torch

from common.models.attention_cuda import OverViewsAtOnce, find_varlen
from common.models.attention_layout import SHORTEST_VIEW, Group, Layout, lay_out
from common.models.attention_parts import OverViews, PartialResult, finished, over_gathered, over_views_one_by_one
from common.models.layer_attention import Scoring
from common.models.plan import AttentionPlan

# Shape letters: N packed rows, H query heads, K key/value heads, F = H / K, D head dimension, V dimension of a head's
# values, S slots, B segments of a group, Q queries and C context entries of each, P partial results.
# ruff: noqa: N803, N806


class AttentionBackend(Protocol):
    """Computes the attention of packed rows to their contexts. It keeps nothing between calls: what it needs of a plan
    in every layer it gets by `AttentionPlan.once`."""

    def attend(
        self,
        plan: AttentionPlan,
        query_HND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        scoring: Scoring,
    ) -> torch.Tensor:
        """`[N, H * V]`. Keys and values are those of the layer's pool, the new rows' written already."""
        ...


class SplitAttention:
    """Views where they lie and gathered contexts beside them, merged by log-sum-exp."""

    def __init__(self, over_views: OverViews, shortest_view: int = SHORTEST_VIEW):
        """Ranges of fewer than `shortest_view` slots are gathered."""
        self._over_views = over_views
        self._shortest_view = shortest_view

    def attend(
        self,
        plan: AttentionPlan,
        query_HND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        scoring: Scoring,
    ) -> torch.Tensor:
        layout = plan.once(lay_out, scoring.sliding_window, scoring.chunk, self._shortest_view)
        query_KFND = query_HND.reshape(keys_KSD.shape[0], -1, *query_HND.shape[1:])
        merge = _Merge(layout, query_KFND, values_KSV.shape[2])
        for partial in self._over_views(query_KFND, keys_KSD, values_KSV, layout, scoring):
            merge.put(*partial)
        for group in layout.groups:
            merge.put(*_over_group(group, query_KFND, keys_KSD, values_KSV, scoring))
        return merge.result(scoring.sinks_H)


def _over_group(
    group: Group, query_KFND: torch.Tensor, keys_KSD: torch.Tensor, values_KSV: torch.Tensor, scoring: Scoring
) -> PartialResult:
    rows = slice(None) if group.rows is None else group.rows
    if group.rows is not None:
        query_KFND = query_KFND.index_select(2, group.rows)
    mask = group.mask(query_KFND.shape[1])
    result, log_sums = over_gathered(
        query_KFND, keys_KSD, values_KSV, group.context_slots, mask, len(group.members), scoring
    )
    if group.unpadded is not None and group.rows is not None:
        rows = group.rows.index_select(0, group.unpadded)
        result, log_sums = (each.index_select(2, group.unpadded) for each in (result, log_sums))
    return rows, result, log_sums


class _Merge:
    """Puts partial results of rows together as they come, so that it holds one result of each row however many ranges
    of slots a context has."""

    def __init__(self, layout: Layout, query_KFND: torch.Tensor, value_dim: int):
        self._like = query_KFND
        self._value_dim = value_dim
        self._is_whole = len(layout.views) + len(layout.groups) == 1
        self._result_KFNV = query_KFND.new_empty(0)
        self._log_sums_KFN = query_KFND.new_empty(0)

    def put(self, rows: torch.Tensor | slice, result_KFnV: torch.Tensor, log_sums_KFn: torch.Tensor) -> None:
        if self._is_whole:
            self._result_KFNV, self._log_sums_KFN = result_KFnV, log_sums_KFn
            return
        if not self._result_KFNV.numel():
            shape = self._like.shape[:3]
            # Nothing weighs nothing.
            self._result_KFNV = log_sums_KFn.new_zeros(*shape, self._value_dim)
            self._log_sums_KFN = log_sums_KFn.new_full(shape, float("-inf"))
        total_KFn = torch.logaddexp(self._log_sums_KFN[:, :, rows], log_sums_KFn)
        share_KFn1 = (log_sums_KFn - total_KFn).exp_()[..., None]
        held_KFnV = self._result_KFNV[:, :, rows]
        self._result_KFNV[:, :, rows] = held_KFnV.lerp(result_KFnV.to(held_KFnV.dtype), share_KFn1)
        self._log_sums_KFN[:, :, rows] = total_KFn

    def result(self, sinks_H: torch.Tensor | None) -> torch.Tensor:
        """`[N, H * V]`."""
        return finished(self._result_KFNV, self._log_sums_KFN, sinks_H).to(self._like.dtype)


@cache
def backend_for(device: torch.device, dtype: torch.dtype, shortest_view: int = SHORTEST_VIEW) -> AttentionBackend:
    """What a device computes attention with where nothing else is asked for."""
    varlen = find_varlen(device, dtype)
    return SplitAttention(over_views_one_by_one if varlen is None else OverViewsAtOnce(varlen), shortest_view)
