"""Partial results of attention: those of rows to views, without masks.

It may not know how they are merged, nor gathered contexts.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

import torch

from common.models.attention_kernels import partial_attention
from common.models.attention_layout import Layout
from common.models.layer_attention import Scoring

# Shape letters: N packed rows, K key/value heads, F query heads of each, D head dimension, V dimension of a head's
# values, S slots, n rows of a partial result.
# ruff: noqa: N803

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
