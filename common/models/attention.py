"""Attention over slots, which every layer calls instead of its own: transformers' layers as a registered function.

It may not know segments, the meaning of masks, or positions: the plan of the pass contains what it needs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from common.models.decoder import CausalDecoder, CausalLm
from common.models.key_values import KeyValuePool
from common.models.plan import AttentionPlan, Group

# Shape letters: N packed rows, H query heads, K key/value heads, F = H / K, D head dimension, S slots,
# B segments of a group, Q queries and C context entries per segment of it, X = heads * D.
# ruff: noqa: N803, N806

ATTENTION = "outrider_tree"


@dataclass(frozen=True, eq=False)
class PassContext:
    """The argument `outrider` of the model's forward, which transformers hands to the attention of every layer."""

    plan: AttentionPlan
    pool: KeyValuePool

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float,
        sliding_window: int | None = None,
    ) -> torch.Tensor:
        """Stores the new keys and values in their slots, then lets each segment attend to its own context.

        `query` is `[1, H, N, D]`, `key` and `value` are `[1, K, N, D]`; the result is `[N, H * D]`.
        """
        plan, pool = self.plan, self.pool
        heads, rows, dim = query.shape[1:]
        kv_heads = key.shape[1]
        keys_SX, values_SX = pool.keys_SX[layer], pool.values_SX[layer]
        keys_SX.index_copy_(0, plan.written_slots, key.transpose(1, 2).reshape(rows, kv_heads * dim))
        values_SX.index_copy_(0, plan.written_slots, value.transpose(1, 2).reshape(rows, kv_heads * dim))

        query_NX = query.transpose(1, 2).reshape(rows, heads * dim)
        results = [
            _attend_group(group, query_NX, keys_SX, values_SX, kv_heads, dim, scaling, sliding_window)
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
    scaling: float,
    outrider: PassContext | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: `PassContext.attend`, its result as `[1, N, H * D]`.

    Raises `TypeError` when the model is called without a plan.
    """
    if outrider is None:
        raise TypeError("this model belongs to a PackedModel: run it through PackedModel.forward")
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    return outrider.attend(layer, query, key, value, scaling, sliding_window)[None], None


def _attend_group(
    group: Group,
    query_NX: torch.Tensor,
    keys_SX: torch.Tensor,
    values_SX: torch.Tensor,
    kv_heads: int,
    dim: int,
    scaling: float,
    sliding_window: int | None,
) -> torch.Tensor:
    segments, queries, context = len(group.segments), group.queries, group.context
    if group.rows is not None:
        query_NX = query_NX.index_select(0, group.rows)
    # Query heads that share a key/value head become further rows of it: no key or value is ever repeated, and
    # every backend's masked kernel accepts it, which is not so for `enable_gqa`.
    query_BKFQD = query_NX.view(segments, queries, kv_heads, -1, dim).permute(0, 2, 3, 1, 4)
    key_BCKD = keys_SX.index_select(0, group.context_slots).view(segments, context, kv_heads, dim)
    value_BCKD = values_SX.index_select(0, group.context_slots).view(segments, context, kv_heads, dim)
    result = scaled_dot_product_attention(
        query_BKFQD.reshape(segments, kv_heads, -1, dim),
        key_BCKD.transpose(1, 2),
        value_BCKD.transpose(1, 2),
        attn_mask=group.mask(query_BKFQD.shape[2], sliding_window),
        scale=scaling,
    )
    result_BKFQD = result.view(segments, kv_heads, -1, queries, dim)
    return result_BKFQD.permute(0, 3, 1, 2, 4).reshape(segments * queries, -1)


def take_over(model: CausalLm) -> None:
    """From here on every layer of the model attends as a pass says."""
    if isinstance(model, CausalDecoder):
        return
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend)
    model.set_attn_implementation(ATTENTION)
