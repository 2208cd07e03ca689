"""Runs an unmodified causal LM over one packed row of several sessions' tokens.

The main class of this folder: a model, its K/V pool, and passes over segments. It may not know who owns a slot, what a
token means, or how tokens are chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from common.models.attention import PassContext, pool_for, take_over
from common.models.decoder import CausalLm
from common.models.layer_attention import attending
from common.models.parts import head_of, stack_of
from common.models.plan import PlanLimits, plan_pass
from common.models.segment import PassInput


@dataclass(frozen=True, eq=False)
class PassOutput:
    """What one pass computed, in the model's dtype and on its device."""

    logits: torch.Tensor
    """`[wanted rows, vocabulary]`: segment by segment, each in the order of its `wanted`."""
    hidden: torch.Tensor
    """`[new tokens, hidden size]`, after the final norm: segment by segment, in token order."""


class PackedModel:
    """A causal LM with K/V for `capacity` tokens of any sessions. One pass at a time."""

    def __init__(self, model: CausalLm, capacity: int, keep_hidden: bool = False) -> None:
        """Takes over `model`: from here on only passes may run it. `keep_hidden` keeps last hidden states in the pool.

        Raises `CheckpointError` where the model's layers do not let a pass attend for them, and `ValueError` for a
        capacity below one slot. Whether passes agree with the model is for `agreement.py` to say.
        """
        take_over(model)
        self.model = model
        self.head = head_of(model)
        self._stack = stack_of(model)
        self.pool = pool_for(model, capacity, keep_hidden)
        self._limits = PlanLimits(
            capacity=capacity,
            vocabulary=model.config.vocab_size,
            dtype=model.dtype,
            device=model.device,
        )

    @torch.inference_mode()
    def forward(self, segments: Sequence[PassInput]) -> PassOutput:
        """One pass: writes the new tokens' K/V, computes their hidden states and the wanted logits.

        Raises `ValueError` when a segment contradicts itself, the pool or the vocabulary, or when two new
        tokens share a slot; nothing was written then.
        """
        plan = plan_pass(segments, self._limits)
        with attending(PassContext(plan.attention, self.pool)):
            output = self._stack(input_ids=plan.token_ids, position_ids=plan.positions, use_cache=False)
        hidden = output.last_hidden_state.squeeze(0)
        if self.pool.hidden_SE is not None:
            self.pool.hidden_SE.index_copy_(0, plan.attention.written_slots, hidden)
        return PassOutput(self.head(hidden.index_select(0, plan.wanted_rows)), hidden)
