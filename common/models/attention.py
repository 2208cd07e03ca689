"""Attention over slots, which every layer calls instead of its own: transformers' layers as a registered function.

It may not know segments, the meaning of masks, or positions: the plan of the pass contains what it needs.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from common.models.decoder import CausalDecoder, CausalLm
from common.models.errors import CheckpointError
from common.models.families import key_width
from common.models.key_values import KeyValuePool
from common.models.layer_attention import Attends, Scoring, attending, running_attention
from common.models.parts import layers_of, stack_of
from common.models.plan import AttentionPlan, Group

# Shape letters: N packed rows, H query heads, K key/value heads, F = H / K, D head dimension, V dimension of a head's
# values, S slots, B segments of a group, Q queries and C context entries per segment of it, X = heads * D, R = F * Q.
# ruff: noqa: N803, N806

ATTENTION = "outrider_tree"


@dataclass(frozen=True, eq=False)
class PassContext:
    """The attention of all layers in one pass."""

    plan: AttentionPlan
    pool: KeyValuePool

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """Stores the new keys and values in their slots, then lets each segment attend to its own context."""
        plan, pool = self.plan, self.pool
        rows = query.shape[2]
        keys_SX, values_SX = pool.keys_SX[layer], pool.values_SX[layer]
        keys_SX.index_copy_(0, plan.written_slots, key.transpose(1, 2).reshape(rows, -1))
        values_SX.index_copy_(0, plan.written_slots, value.transpose(1, 2).reshape(rows, -1))

        query_NX = query.transpose(1, 2).reshape(rows, -1)
        results = [
            _attend_group(group, query_NX, keys_SX, values_SX, key.shape[1], key.shape[3], scoring)
            for group in plan.groups
        ]
        if plan.packed_order is None:
            return results[0]
        return torch.cat(results).index_select(0, plan.packed_order)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: `Attends.attend`, its result as `[B, Q, H, V]`.

    Raises `TypeError` when the model is called without a pass.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    window, chunk = _reach(getattr(module, "config", None), layer, sliding_window)
    scoring = Scoring(query.shape[-1] ** -0.5 if scaling is None else scaling, window, chunk, softcap, s_aux)
    result_NX = running_attention().attend(layer, query, key, value, scoring)
    return result_NX.view(query.shape[0], query.shape[2], query.shape[1], -1), None


def _reach(config: Any, layer: int, sliding_window: int | None) -> tuple[int | None, int | None]:
    """The sliding window and the chunk of a layer. Some families tell them to the mask alone, by the layer's type."""
    types = getattr(config, "layer_types", None)
    kind = types[layer] if types and layer < len(types) else None
    if kind == "chunked_attention":
        return sliding_window, config.attention_chunk_size
    if kind == "sliding_attention" and sliding_window is None:
        return config.sliding_window, None
    return sliding_window, None


def _attend_group(
    group: Group,
    query_NX: torch.Tensor,
    keys_SX: torch.Tensor,
    values_SX: torch.Tensor,
    kv_heads: int,
    dim: int,
    scoring: Scoring,
) -> torch.Tensor:
    segments, queries, context = len(group.segments), group.queries, group.context
    if group.rows is not None:
        query_NX = query_NX.index_select(0, group.rows)
    # Query heads that share a key/value head become further rows of it: no key or value is ever repeated, and
    # every backend's masked kernel accepts it, which is not so for `enable_gqa`.
    query_BKFQD = query_NX.view(segments, queries, kv_heads, -1, dim).permute(0, 2, 3, 1, 4)
    key_BCKD = keys_SX.index_select(0, group.context_slots).view(segments, context, kv_heads, dim)
    value_BCKV = values_SX.index_select(0, group.context_slots).view(segments, context, kv_heads, -1)
    shared = query_BKFQD.shape[2]
    query_BKRD = query_BKFQD.reshape(segments, kv_heads, -1, dim)
    key_BKCD, value_BKCV = key_BCKD.transpose(1, 2), value_BCKV.transpose(1, 2)
    mask = group.mask(shared, scoring.sliding_window, scoring.chunk)
    sinks_K1R1 = None
    if scoring.sinks_H is not None:
        sinks_K1R1 = scoring.sinks_H.view(kv_heads, shared, 1).expand(-1, -1, queries).reshape(kv_heads, -1, 1)
    result = weigh(query_BKRD, key_BKCD, value_BKCV, mask, scoring, sinks_K1R1)
    result_BKFQV = result.reshape(segments, kv_heads, shared, queries, -1)
    return result_BKFQV.permute(0, 3, 1, 2, 4).reshape(segments * queries, -1)


def weigh(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scoring: Scoring,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """`[B, K, R, V]`: what `query [B, K, R, D]` gets of `value [B, K, C, V]` behind `key [B, K, C, D]`. `mask` is added
    to the scores, broadcast to `[B, K, R, C]`; `sinks [K, R or 1, 1]` are those of the layer's heads. Of `scoring`, the
    window and the chunk are the mask's affair."""
    if scoring.softcap is None and sinks is None:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scoring.scaling)
    return _weights(query, key, mask, scoring, sinks) @ value


def _weights(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scoring: Scoring, sinks: torch.Tensor | None
) -> torch.Tensor:
    """`[B, K, R, C]`: the softmax of scores that are capped (Gemma 2, arXiv 2408.00118) or have sinks (gpt-oss,
    arXiv 2508.10925), which no fused kernel computes."""
    scores = query @ key.transpose(2, 3) * scoring.scaling
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    if mask is not None:
        scores = scores + mask
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
    return weights if sinks is None else weights[..., :-1]


def run_layers(model: CausalLm, attends: Attends, positions: torch.Tensor, entering: torch.Tensor) -> torch.Tensor:
    """`[B, Q, E]`: last hidden states, after the final norm, from `entering [B, Q, E]`, what the first layer gets, at
    `positions [B, Q]`. A pass is one row, B = 1."""

    # A family may scale its embeddings, or add positions to them, before its first layer.
    def enter(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if given:
            return (entering, *given[1:]), named
        return given, named | {"hidden_states": entering}

    hook = layers_of(model)[0].register_forward_pre_hook(enter, with_kwargs=True)
    try:
        with attending(attends):
            output = stack_of(model)(inputs_embeds=entering, position_ids=positions, use_cache=False)
    finally:
        hook.remove()
    hidden: torch.Tensor = output.last_hidden_state
    return hidden


def take_over(model: CausalLm) -> None:
    """From here on every layer of the model attends as a pass says."""
    if isinstance(model, CausalDecoder):
        return
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend)
    model.set_attn_implementation(ATTENTION)


def pool_for(
    model: CausalLm,
    capacity: int,
    keep_hidden: bool = False,
    taps: Collection[int] = (),
    *,
    on_demand: bool = False,
) -> KeyValuePool:
    """K/V of `capacity` slots for a model that was taken over, as wide in each layer as its attention gets them. The
    other arguments are those of `KeyValuePool.allocate`.

    Raises `ValueError` below one slot, and `CheckpointError` where the model computes its attention itself.
    """
    if capacity < 1:
        raise ValueError(f"a K/V pool needs a positive capacity, not {capacity}")
    config = model.config
    if isinstance(model, CausalDecoder):
        widths = [(key_width(config), key_width(config))] * int(config.num_hidden_layers)
    else:
        measured = _Widths()
        first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        with torch.inference_mode(), attending(measured):
            stack_of(model)(input_ids=first, position_ids=first, use_cache=False)
        if config.num_hidden_layers and not measured.of_layers:
            raise CheckpointError(
                f"the model type '{config.model_type}' computes its attention itself, so that no pass can hold several "
                "sessions; choose another target."
            )
        widths = [measured.of_layers.get(layer, (0, 0)) for layer in range(max(measured.of_layers, default=-1) + 1)]
    hidden_size = int(config.hidden_size)
    return KeyValuePool.allocate(widths, capacity, model.dtype, model.device, hidden_size, keep_hidden, taps, on_demand)


class _Widths:
    """Notes how wide the keys and values of each layer are, and attends to nothing."""

    def __init__(self) -> None:
        self.of_layers: dict[int, tuple[int, int]] = {}

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        self.of_layers[layer] = key.shape[1] * key.shape[3], value.shape[1] * value.shape[3]
        return query.new_zeros(query.shape[2], query.shape[1] * value.shape[3])
