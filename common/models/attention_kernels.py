"""Attention of queries to keys and values: by torch's fused kernels wherever they compute what a family asks for.

It may not know slots, segments or where keys and values come from.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from common.models.layer_attention import Scoring

# Shape letters: B batch entries, K key/value heads, R rows of queries for each, C keys, D head dimension, V dimension
# of a head's values.


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scoring: Scoring,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """`[B, K, R, V]`: what `query [B, K, R, D]` gets of `value [B, K, C, V]` behind `key [B, K, C, D]`, with gradients.
    `mask` is added to the scores, broadcast to `[B, K, R, C]`; `sinks [K, R or 1, 1]` are those of the layer's heads.
    Of `scoring`, the window and the chunk are the mask's affair."""
    if scoring.softcap is None and sinks is None:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scoring.scaling)
    scores = _scores(query, key, mask, scoring)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
    return (weights if sinks is None else weights[..., :-1]) @ value


def partial_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scoring: Scoring
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attention` to some of the keys: its result, and the log-sum-exp `[B, K, R]` of the scores, by which it is merged
    with the results over others. Sinks are the merge's affair."""
    if scoring.softcap is None and query.shape[-1] == value.shape[-1]:
        if query.device.type == "cpu":
            return _fused_on_cpu(query, key, value, mask, scoring.scaling)
        if query.device.type == "cuda" and query.dtype != torch.float64:
            return _fused_on_cuda(query, key, value, mask, scoring.scaling)
    scores = _scores(query, key, mask, scoring)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    log_sums = scores.logsumexp(-1, keepdim=True)
    return (scores - log_sums).exp_().to(query.dtype) @ value, log_sums.squeeze(-1)


def _scores(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scoring: Scoring) -> torch.Tensor:
    """`[B, K, R, C]`: scores that may be capped (Gemma 2, arXiv 2408.00118), which no fused kernel computes."""
    scores = query @ key.transpose(2, 3) * scoring.scaling
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    return scores if mask is None else scores + mask


def _fused_on_cpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    result, log_sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, attn_mask=mask, scale=scaling
    )
    return result, log_sums


def _fused_on_cuda(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    bias = None if mask is None else mask.expand(query.shape[0], query.shape[1], *mask.shape[2:])
    result, log_sums, _, _ = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, True, scale=scaling
    )
    # The kernel pads the rows of its log-sum-exp.
    return result, log_sums[..., : query.shape[2]]
