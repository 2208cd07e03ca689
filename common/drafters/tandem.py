"""`tandem`: drafts from token embeddings, with the target's hidden states instead of its own where they have
arrived (Nair et al. 2024, arXiv 2402.08644).

It may know the draft network, the target's embedding and head, and slots, not trees, sessions or how state travels.
All keys and values lie by slot; a committed token's are the draft's own until its state arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from common.draft_models.tandem import KIND, TandemDraft, load_tandem
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.packed_layer import PackedLayer
from common.drafters.received import ArrivedPositions
from common.drafters.state_values import state_values
from common.drafters.tree_drafter import tree_factory
from common.integers import Integers
from common.models.decoder import CausalLm
from common.models.segment import Segment
from common.protocol.draft_state import FUSED
from common.protocol.messages import State, StateRequest


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft = load_tandem(config.directory)
    tail = load_tail_for(draft, config, draft.config.layer.hidden)
    head = drafting_head(tail)

    return tree_factory(lambda: TandemNetwork(draft, tail, head, config.request, config.context, SPARE_SLOTS), config)


@dataclass(frozen=True, eq=False)
class Level:
    """The wanted rows of a forward: the last layer's `inputs` and `outputs`, `[1, W, E]` each, at
    `positions [1, W]`."""

    inputs: torch.Tensor
    outputs: torch.Tensor
    positions: torch.Tensor


class TandemNetwork:
    kind = KIND
    renews_nodes = True
    columns: torch.Tensor | None = None

    def __init__(
        self, trunk: TandemDraft, tail: CausalLm, head: nn.Module, request: StateRequest, context: int, spare: int
    ):
        """`trunk`: the whole draft, or the layers of one of another kind. `head`: the tail's. `spare` slots beside a
        `context` hold the tree."""
        self.state: StateRequest | None = request
        self.capacity = context + spare
        self._trunk = trunk
        self._embedding = tail.get_input_embeddings()
        self._head = head
        self._like = torch.empty(0, dtype=tail.dtype, device=tail.device)
        self._arrived = ArrivedPositions(context, aside=self.capacity, device=tail.device)
        vocabulary = tail.config.vocab_size
        self._layers = [
            PackedLayer(trunk.config.layer, self.capacity + 1, vocabulary, self._like) for _ in trunk.layers
        ]

    @torch.inference_mode()
    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        for state in states:
            if state.kind == FUSED:
                values = state_values(state, self._like, self._trunk.config.state_width)
                slots = self._arrived.add(state.start, state.count, past_slots)
                at = torch.arange(state.start, state.start + len(slots), device=self._like.device)
                made = self._trunk.keys_values(values[None, : len(slots)], at[None])
                for layer, keys_values in zip(self._layers, made, strict=True):
                    layer.write(slots, *keys_values)
        # The pending tokens after the newest state, and with them the root, were computed from an older one.
        return min(self._arrived.newest + 1, max(0, len(past_slots) - 1))

    def forget(self, keep: int) -> None:
        self._arrived.forget(keep)

    @torch.inference_mode()
    def forward(self, segment: Segment) -> torch.Tensor:
        logits: torch.Tensor = self._head(self._trunk.norm(self.level(segment).outputs)[0])
        return logits

    def level(self, segment: Segment) -> Level:
        """A segment in all layers."""
        plan = self._arrived.spare(self._layers[0].plan(segment))
        *others, last = (layer.attention(plan) for layer in self._layers)
        inputs = self._trunk.read(self._embedding(plan.token_ids), plan.positions, others)
        outputs = self._trunk.last(inputs, plan.positions, last)
        return Level(*(each.index_select(1, plan.wanted_rows) for each in (inputs, outputs, plan.positions)))
