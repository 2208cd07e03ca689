"""Target-layer inference for all positions at once, as training needs it: the frozen last layers of the target run over
predicted hidden states, with attention to the target's own K/V up to each query's newest state and to the predictions'
K/V beyond.

What may live here: an attention function for transformers and the call that uses it. It may not know how hidden states
are predicted, nor any loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

# Shape letters: R rows, T columns, E hidden size, N layers, X width of a layer's keys, K its heads, D their size.

_ATTENTION = "outrider_two_sources"


@dataclass(frozen=True)
class TwoSources:
    """`known`: [N, R, T, 2 * X], the target's keys after RoPE, then its values. `sees_known` and `sees_predicted`:
    bool [R, T, T], which of the target's and of the predictions' keys each query sees; together at least one."""

    known: torch.Tensor
    sees_known: torch.Tensor
    sees_predicted: torch.Tensor


def through_tail(tail: PreTrainedModel, hidden: torch.Tensor, sources: TwoSources) -> torch.Tensor:
    """The last hidden state `[R, T, E]`, after the final norm, from the tail's input `hidden [R, T, E]`.

    `tail` has as many layers as `sources.known`; its attention is set to this one.
    """
    if tail.config._attn_implementation != _ATTENTION:
        tail.set_attn_implementation(_ATTENTION)
    columns = hidden.shape[1]
    positions = torch.arange(columns, device=hidden.device)[None].expand(len(hidden), columns)
    body: Any = tail.model
    out: torch.Tensor = body(
        inputs_embeds=hidden, position_ids=positions, use_cache=False, two_sources=sources
    ).last_hidden_state
    return out


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    two_sources: TwoSources,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """`query` `[R, heads, T, D]`, `key` and `value` `[R, K, T, D]`; the result is `[R, T, heads, D]`."""
    layer: Any = module
    known = two_sources.known[layer.layer_idx].to(key.dtype)
    by_head = (*known.shape[:-1], key.shape[1], key.shape[3])
    known_keys, known_values = (half.reshape(by_head).transpose(1, 2) for half in known.chunk(2, dim=-1))
    repeats = query.shape[1] // key.shape[1]
    keys = torch.cat([known_keys, key], dim=2).repeat_interleave(repeats, dim=1)
    values = torch.cat([known_values, value], dim=2).repeat_interleave(repeats, dim=1)
    sees = [two_sources.sees_known, two_sources.sees_predicted]
    if sliding_window is not None:
        positions = torch.arange(query.shape[2], device=query.device)
        near = positions[:, None] - positions[None] < sliding_window
        sees = [each & near for each in sees]
    mask = torch.cat(sees, dim=-1)[:, None]
    result = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scaling)
    return result.transpose(1, 2), None


AttentionInterface.register(_ATTENTION, _attend)
