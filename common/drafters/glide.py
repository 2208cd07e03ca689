"""`glide`: drafts from token embeddings and from the keys and values of the target's last layer that have arrived (Du
et al. 2024, arXiv 2402.02082).

It may know the draft network, the target's embedding and head, and slots, not trees, sessions or how state travels.
The self-attention keeps K/V by slot, the target's K/V lie by position.
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.draft_models.glide import KIND, GlideDraft, load_glide
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.packed_layer import PackedLayer
from common.drafters.received import ReceivedKeyValues
from common.drafters.state_values import state_values
from common.drafters.tree_drafter import tree_factory
from common.integers import Integers
from common.models.decoder import CausalLm
from common.models.segment import Segment
from common.protocol.draft_state import LAST
from common.protocol.messages import State, StateRequest


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft = load_glide(config.directory)
    tail = load_tail_for(draft, config, draft.config.layer.hidden)
    head = drafting_head(tail)

    return tree_factory(lambda: GlideNetwork(draft, tail, head, config.request, config.context, SPARE_SLOTS), config)


class GlideNetwork:
    kind = KIND
    renews_nodes = True
    columns: torch.Tensor | None = None

    def __init__(
        self, draft: GlideDraft, tail: CausalLm, head: nn.Module, request: StateRequest, context: int, spare: int
    ):
        """`head`: the tail's. `spare` slots beside a `context` hold the tree."""
        self.state: StateRequest | None = request
        self.capacity = context + spare
        shape = draft.config.layer
        self._draft = draft
        self._embedding = tail.get_input_embeddings()
        self._head = head
        self._like = torch.empty(0, dtype=tail.dtype, device=tail.device)
        self._received = ReceivedKeyValues(shape.kv_heads, shape.head_dim, context, self._like)
        self._own = [PackedLayer(shape, self.capacity, tail.config.vocab_size, self._like) for _ in draft.layers]

    @torch.inference_mode()
    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        shape = self._draft.config.layer
        for state in states:
            if state.kind == LAST:
                values = state_values(state, self._like, 2 * shape.kv_heads * shape.head_dim)
                by_head = values.view(len(values), 2, shape.kv_heads, shape.head_dim)
                self._received.put(state.start, *by_head.permute(1, 2, 0, 3))
        # The pending tokens after the newest state, and with them the root, were computed from an older one.
        return min(self._received.newest + 1, max(0, len(past_slots) - 1))

    def forget(self, keep: int) -> None:
        self._received.forget(keep)

    @torch.inference_mode()
    def forward(self, segment: Segment) -> torch.Tensor:
        plan = self._own[0].plan(segment)
        received = self._received
        out = self._draft(
            self._embedding(plan.token_ids),
            plan.positions,
            [layer.attention(plan) for layer in self._own],
            received.attention,
            received.keys_values(),
        )
        logits: torch.Tensor = self._head(out[0].index_select(0, plan.wanted_rows))
        return logits
