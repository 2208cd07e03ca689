"""`independent`: any causal LM with the target's tokenizer as draft model. It needs no draft state."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_causal_lm_for
from common.drafters.tree_drafter import tree_factory
from common.integers import Integers
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the checkpoint is missing or broken."""
    model = load_causal_lm_for(config)
    head = drafting_head(model)

    def make_network() -> "IndependentNetwork":
        packed = PackedModel(model, config.context + SPARE_SLOTS, on_demand=True, head=head)
        return IndependentNetwork(packed, config.vocab_size)

    return tree_factory(make_network, config)


class IndependentNetwork:
    kind = "independent"
    state: StateRequest | None = None
    renews_nodes = False
    columns: torch.Tensor | None = None

    def __init__(self, model: PackedModel, vocab_size: int):
        """`vocab_size` is the target's; checkpoints of one tokenizer may be padded to different sizes."""
        self.capacity = model.pool.capacity
        self._model = model
        self._vocab_size = vocab_size

    def forward(self, segment: Segment) -> torch.Tensor:
        tokens, last = np.asarray(segment.tokens), self._model.model.config.vocab_size - 1
        if (tokens > last).any():  # of the target's padding, which a smaller checkpoint lacks
            segment = replace(segment, tokens=np.minimum(tokens, last))
        return self._model.forward([segment]).logits[:, : self._vocab_size]

    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        return len(past_slots)

    def forget(self, keep: int) -> None:
        """It has no draft state."""
