"""Attention whose result for a row depends on that row's own path alone, to the last bit: batch-invariant attention.

A kernel's rounding depends on the shape of its input, so that a token would get other logits as a node beside thirty
others than alone. Here each row attends page by page (`page_tasks.py`) in calls of fixed length in float32, and the
partial results are merged in order of position by single additions and products, which IEEE 754 defines. What a kernel
may still depend on, the number of rows and pages in a call, is measured when a model is loaded
(`batch_invariance.py`). The principle is that of fixed split sizes in He et al. 2025, Defeating Nondeterminism in LLM
Inference (Thinking Machines Lab).

It may not know models, families or segments.
"""

from collections.abc import Iterator

import torch

from common.models.attention_kernels import partial_attention
from common.models.layer_attention import Scoring
from common.models.page_layout import LayerKind, PageCall, Section, lay_out_pages
from common.models.page_tasks import PAGE
from common.models.plan import AttentionPlan

# Shape letters: those of `page_layout.py`; K key/value heads, S slots, D dimension of a head's keys, V of its values.
# ruff: noqa: N803, N806


class BatchInvariantAttention:
    """A backend (`attention_backend.py`) that is batch-invariant."""

    def attend(
        self,
        plan: AttentionPlan,
        query_HND: torch.Tensor,
        keys_KSD: torch.Tensor,
        values_KSV: torch.Tensor,
        scoring: Scoring,
    ) -> torch.Tensor:
        """`[N, H * V]`. Keys and values are those of the layer's pool, the new rows' written already."""
        heads, kv_heads = query_HND.shape[0], keys_KSD.shape[0]
        dtype = torch.promote_types(query_HND.dtype, torch.float32)
        kind = LayerKind(heads, heads // kv_heads, values_KSV.shape[2], scoring.sliding_window, scoring.chunk, dtype)
        query_NHD = query_HND.transpose(0, 1).to(dtype)
        results = [
            _attend_section(section, query_NHD, keys_KSD, values_KSV, scoring)
            for section in plan.once(lay_out_pages, kind)
        ]
        return torch.cat(results).to(query_HND.dtype).flatten(1)


def _attend_section(
    section: Section, query_NHD: torch.Tensor, keys_KSD: torch.Tensor, values_KSV: torch.Tensor, scoring: Scoring
) -> torch.Tensor:
    """`[n, H, V]`."""
    partials = [_attend_pages(call, query_NHD, keys_KSD, values_KSV, scoring) for call in section.calls]
    results = torch.cat([result.flatten(0, 2) for result, _ in partials])
    log_sums = torch.cat([log_sum.flatten() for _, log_sum in partials])
    return _merge(section, results, log_sums, scoring.sinks_H)


def _attend_pages(
    call: PageCall, query_NHD: torch.Tensor, keys_KSD: torch.Tensor, values_KSV: torch.Tensor, scoring: Scoring
) -> tuple[torch.Tensor, torch.Tensor]:
    """`[E, K, R, V]`, and the log-sum-exp of the scores, `[E, K, R]`."""
    pages, rows = call.rows_EM.shape
    kv_heads = keys_KSD.shape[0]
    query_EMKFD = query_NHD.index_select(0, call.rows_EM.flatten()).view(pages, rows, kv_heads, -1, query_NHD.shape[2])
    query_EKRD = query_EMKFD.permute(0, 2, 3, 1, 4).flatten(2, 3)
    key, value = (
        held.to(query_NHD.dtype).view(kv_heads, pages, PAGE, -1).transpose(0, 1)
        for held in _held(call.slots, keys_KSD, values_KSV)
    )
    return partial_attention(query_EKRD, key, value, call.mask_E1RP, scoring)


def _held(slots: slice | torch.Tensor, *pools: torch.Tensor) -> Iterator[torch.Tensor]:
    for pool in pools:
        yield pool[:, slots] if isinstance(slots, slice) else pool.index_select(1, slots)


def _merge(
    section: Section, results: torch.Tensor, log_sums: torch.Tensor, sinks_H: torch.Tensor | None
) -> torch.Tensor:
    """`[n, H, V]`, summed page by page: the zeros of pages that a row does not see change no sum. Sinks take their
    share of the weights (gpt-oss, arXiv 2508.10925)."""
    log_sums_JnH = log_sums[section.gather_JnH].masked_fill_(~section.seen_Jn1, float("-inf"))
    largest_nH = log_sums_JnH.amax(0)
    total_nH = torch.zeros_like(largest_nH)
    if sinks_H is not None:
        sinks_H = sinks_H.to(largest_nH.dtype)
        largest_nH = largest_nH.maximum(sinks_H)
        total_nH = (sinks_H - largest_nH).exp()
    weights_JnH = (log_sums_JnH - largest_nH).exp_()
    merged_nHV = results.new_zeros(*largest_nH.shape, results.shape[-1])
    for gather_nH, weights_nH in zip(section.gather_JnH, weights_JnH, strict=True):
        part_nHV = results.index_select(0, gather_nH.flatten()).view_as(merged_nHV)
        merged_nHV += part_nHV.mul_(weights_nH[..., None])
        total_nH = total_nH + weights_nH
    return merged_nHV / total_nH[..., None]
