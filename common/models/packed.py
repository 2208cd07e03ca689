"""Runs an unmodified causal LM over one packed row of several sessions' tokens.

The main class of this folder: a model, its K/V pool, and passes over segments. It may not know who owns a slot, what a
token means, or how tokens are chosen.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from common.models.attention import PassContext, take_over
from common.models.decoder import CausalLm
from common.models.families import check_family
from common.models.key_values import KeyValuePool
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

    def __init__(self, model: CausalLm, capacity: int, keep_hidden: bool = False, taps: Collection[int] = ()) -> None:
        """Takes over `model`: from here on only passes may run it. `keep_hidden` keeps last hidden states in the pool,
        `taps` those that enter these layers, or leave the last one where it is the number of layers.

        Raises `CheckpointError` for an unsupported family and `ValueError` for a capacity below one slot.
        """
        config = model.config
        check_family(config.model_type)
        take_over(model)
        self.model = model
        self.pool = KeyValuePool.for_model(model, capacity, keep_hidden, taps)
        self._limits = PlanLimits(
            capacity=capacity,
            vocabulary=config.vocab_size,
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
        with self._tapped(plan.attention.written_slots):
            hidden = self.model.model(
                input_ids=plan.token_ids,
                position_ids=plan.positions,
                use_cache=False,
                outrider=PassContext(plan.attention, self.pool),
            ).last_hidden_state.squeeze(0)
        if self.pool.hidden_SE is not None:
            self.pool.hidden_SE.index_copy_(0, plan.attention.written_slots, hidden)
        return PassOutput(self.model.lm_head(hidden.index_select(0, plan.wanted_rows)), hidden)

    @contextmanager
    def _tapped(self, slots: torch.Tensor) -> Iterator[None]:
        """Keeps the hidden states at the pool's taps of one forward in `slots`."""
        body: Any = self.model.model
        with ExitStack() as hooks:
            for tap, kept_SE in self.pool.taps_SE.items():  # noqa: N806

                def keep(_: Any, given: tuple[Any, ...], kept: torch.Tensor = kept_SE) -> None:
                    kept.index_copy_(0, slots, given[0].squeeze(0))

                where = body.layers[tap] if tap < len(body.layers) else body.norm
                hooks.enter_context(where.register_forward_pre_hook(keep))
            yield
