"""K/V slots and tree attention for one draft layer, so that it runs over a tree as the target's layers do.

It may know plans and K/V pools, not which network the layer belongs to.
"""

import torch

from common.draft_models.layers import Attention, LayerShape
from common.models.attention import PassContext
from common.models.key_values import KeyValuePool, KeyValueShape
from common.models.layer_attention import Scoring
from common.models.plan import PassPlan, PlanLimits, plan_pass
from common.models.segment import Segment


class PackedLayer:
    def __init__(self, shape: LayerShape, capacity: int, vocabulary: int, like: torch.Tensor):
        """`like` gives dtype and device."""
        held = KeyValueShape(shape.kv_heads, shape.head_dim, shape.head_dim)
        self._pool = KeyValuePool.allocate([held], capacity, like.dtype, like.device, 0, on_demand=True)
        self._scoring = Scoring(shape.head_dim**-0.5, shape.sliding_window)
        self._limits = PlanLimits(capacity, vocabulary, like.dtype, like.device)

    def plan(self, segment: Segment) -> PassPlan:
        return plan_pass([segment], self._limits)

    def write(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Puts keys and values, `[1, K, N, D]` each, into `slots [N]` without a pass."""
        self._pool.write(0, slots, keys[0], values[0])

    def read(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, `[1, K, N, D]` each, in `slots [N]`."""
        keys, values = (held[0].index_select(1, slots) for held in (self._pool.keys_KSD, self._pool.values_KSV))
        return keys[None], values[None]

    def attention(self, plan: PassPlan) -> Attention:
        """Attention of the plan's rows to their contexts, for `DecoderLayer.forward`."""
        context = PassContext(plan.attention, self._pool)

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return context.attend(0, queries, keys, values, self._scoring)[None]

        return attend
