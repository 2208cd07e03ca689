"""Layers of a draft that start from the target's own: what a family has under another name, or in another shape, stays
as it was drawn.

What may live here: copying weights. It may not know any draft kind, losses or batches.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from common.draft_models.layers import DecoderLayer
from common.models.quantised import plain_weight


@torch.no_grad()
def copy_layer(ours: DecoderLayer, theirs: Any, model: Any) -> None:
    """Attention and feed-forward part."""
    copy_attention(ours, theirs, model)
    copy_feed_forward(ours, theirs, model)


@torch.no_grad()
def copy_attention(ours: DecoderLayer, theirs: Any, model: Any) -> None:
    attention = getattr(theirs, "self_attn", None)
    copy_norm(ours.input_norm, getattr(theirs, "input_layernorm", None))
    copy_linear(ours.v_proj, getattr(attention, "v_proj", None), model)
    copy_linear(ours.o_proj, getattr(attention, "o_proj", None), model)
    # Where the family normalises queries and keys, its projections mean nothing without that.
    if not hasattr(attention, "q_norm"):
        copy_linear(ours.q_proj, getattr(attention, "q_proj", None), model)
        copy_linear(ours.k_proj, getattr(attention, "k_proj", None), model)


@torch.no_grad()
def copy_feed_forward(ours: DecoderLayer, theirs: Any, model: Any) -> None:
    """Its largest units, as many as fit."""
    feed = getattr(theirs, "mlp", None)
    copy_norm(ours.post_norm, _norm_before_feed_forward(theirs))
    named = (getattr(feed, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
    parts = [part for part in named if isinstance(part, nn.Module)]
    if len(parts) < 3:
        return
    gate, up, down = (plain_weight(each, model) for each in parts)
    norms = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
    units = norms.float().argsort(descending=True)[: ours.shape.intermediate]
    ours.gate_proj.weight[: len(units)] = gate[units]
    ours.up_proj.weight[: len(units)] = up[units]
    ours.down_proj.weight[:, : len(units)] = down[:, units]


def _norm_before_feed_forward(theirs: Any) -> Any:
    """None where there is no such norm. `post_attention_layernorm` is its name in most families; beside a norm of the
    feed-forward part's own, as in Gemma 2 and OLMo 2, it stands behind attention, before the sum."""
    if hasattr(theirs, "pre_feedforward_layernorm") or hasattr(theirs, "post_feedforward_layernorm"):
        return getattr(theirs, "pre_feedforward_layernorm", None)
    return getattr(theirs, "post_attention_layernorm", None)


@torch.no_grad()
def copy_linear(ours: nn.Linear, theirs: Any, model: Any) -> None:
    weight = None if theirs is None else plain_weight(theirs, model)
    if weight is None or weight.shape != ours.weight.shape:
        return
    ours.weight.copy_(weight)
    if ours.bias is not None and theirs.bias is not None:
        ours.bias.copy_(theirs.bias)


@torch.no_grad()
def copy_norm(ours: Any, theirs: Any) -> None:
    """Copies what a norm multiplies by, which some families keep less one: found in float32, as bfloat16 rounds that
    sum."""
    if getattr(theirs, "weight", None) is None or theirs.weight.shape != ours.weight.shape:
        return
    norm = deepcopy(theirs).float()
    weight = norm.weight
    gain = norm(torch.ones_like(weight))
    is_less_one = torch.allclose(gain, 1 + weight, rtol=1e-3, atol=1e-3)
    ours.weight.copy_(1 + weight if is_less_one else weight)
