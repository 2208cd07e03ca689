"""Runs an unmodified causal LM over one packed row of several sessions' tokens.

The main class of this folder: a model, its K/V pool, and passes over segments. It may not know who owns a slot, what a
token means, or how tokens are chosen.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from common.models.attention import PassContext, pool_for, take_over
from common.models.attention_backend import AttentionBackend
from common.models.buckets import NoBucketError, bucket_of
from common.models.decoder import CausalLm
from common.models.layer_attention import attending
from common.models.parts import head_of, layers_of, stack_of
from common.models.pass_graphs import PassGraphs
from common.models.plan import AttentionPlan, PassPlan, PlanLimits, plan_pass
from common.models.prepacked import prepack
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

    def __init__(
        self,
        model: CausalLm,
        capacity: int,
        keep_hidden: bool = False,
        taps: Collection[int] = (),
        backend: AttentionBackend | None = None,
        *,
        prepacked: bool = False,
        row_multiple: int = 1,
        graphs: PassGraphs | None = None,
        on_demand: bool = False,
        head: nn.Module | None = None,
    ) -> None:
        """Takes over `model`: from here on only passes may run it. `keep_hidden` keeps last hidden states in the pool,
        `taps` those that enter these layers, or leave the last one where it is the number of layers. `backend` computes
        attention; without one, that of the model's device does. `prepacked` lays weights out for passes where that is
        faster. Passes are filled up to a multiple of `row_multiple` rows, and so are the rows whose logits are wanted.
        With `graphs`, for a `row_multiple` of 1, passes that have a bucket are filled up to it and replayed as
        graphs; the others are launched kernel by kernel. `on_demand`: K/V take memory as slots are written, which suits
        a context that is seldom full. `head` takes the place of the model's own.

        Raises `CheckpointError` where the model's layers do not let a pass attend for them, and `ValueError` for a
        capacity below one slot. Whether passes agree with the model is for `agreement.py` to say.
        """
        assert graphs is None or row_multiple == 1, "buckets keep to no multiple of rows"
        take_over(model)
        if prepacked:
            prepack(model)
        self.model = model
        self.head = head_of(model) if head is None else head
        self._stack = stack_of(model)
        self._backend = backend
        self._graphs = graphs
        # Rows that fill a bucket up write into one more slot.
        padding_slots = 0 if graphs is None else 1
        self.pool = pool_for(model, capacity, keep_hidden, taps, on_demand=on_demand, padding_slots=padding_slots)
        self._limits = PlanLimits(
            capacity=capacity,
            vocabulary=model.config.vocab_size,
            dtype=model.dtype,
            device=model.device,
            row_multiple=row_multiple,
        )

    @torch.inference_mode()
    def forward(self, segments: Sequence[PassInput]) -> PassOutput:
        """One pass: writes the new tokens' K/V, computes their hidden states and the wanted logits.

        Raises `ValueError` when a segment contradicts itself, the pool or the vocabulary, or when two new
        tokens share a slot; nothing was written then.
        """
        replayed = None if self._graphs is None else self._replayed(segments, self._graphs)
        if replayed is None:
            plan = plan_pass(segments, self._limits)
            with self._in_pass(plan.attention, self._backend):
                output = self._stack(input_ids=plan.token_ids, position_ids=plan.positions, use_cache=False)
            hidden = output.last_hidden_state.squeeze(0)[: plan.rows]
        else:
            plan, hidden = replayed
        if self.pool.hidden_SE is not None:
            self.pool.hidden_SE.index_copy_(0, plan.attention.written_slots[: plan.rows], hidden)
        multiple = self._limits.row_multiple
        wanted_rows = plan.wanted_rows[: -(-plan.wanted // multiple) * multiple]
        logits = self.head(hidden.index_select(0, wanted_rows))
        return PassOutput(logits[: plan.wanted], hidden)

    def _replayed(self, segments: Sequence[PassInput], graphs: PassGraphs) -> tuple[PassPlan, torch.Tensor] | None:
        """The plan, and last hidden states of the rows that count, by a graph; None where the pass has none."""
        if graphs.is_given_up:
            return None
        try:
            bucket = bucket_of(segments)
            on_host = plan_pass(segments, replace(self._limits, device=torch.device("cpu")), bucket)
            plan, filled = graphs.run(on_host, self._limits.device, partial(self._filled, backend=graphs.backend))
            return plan, filled[: plan.rows]
        except NoBucketError:
            return None

    def _filled(self, plan: PassPlan, backend: AttentionBackend) -> torch.Tensor:
        """Last hidden states of all rows of the plan, those included that fill it up, `[N, E]`."""
        with self._in_pass(plan.attention, backend):
            output = self._stack(input_ids=plan.token_ids, position_ids=plan.positions, use_cache=False)
        hidden: torch.Tensor = output.last_hidden_state
        return hidden.squeeze(0)

    @contextmanager
    def _in_pass(self, plan: AttentionPlan, backend: AttentionBackend | None) -> Iterator[None]:
        """Inside the block, the layers attend as the plan says, and leave what is kept of them."""
        context = PassContext(plan, self.pool, backend)
        with attending(context), self._tapped(plan.written_slots):
            yield

    @contextmanager
    def _tapped(self, slots: torch.Tensor) -> Iterator[None]:
        """Keeps the hidden states at the pool's taps of one forward in `slots`."""
        layers = layers_of(self.model) if self.pool.taps_SE else nn.ModuleList()
        with ExitStack() as hooks:
            for tap, kept_SE in self.pool.taps_SE.items():  # noqa: N806

                def keep(_: nn.Module, states: Any, left: Any = None, kept: torch.Tensor = kept_SE) -> None:
                    """`states` enter a layer; where it has run, `left` leave it. Some layers give tuples."""
                    found = states if left is None else left
                    rows = (found if isinstance(found, torch.Tensor) else found[0]).squeeze(0)
                    kept.index_copy_(0, slots, rows[: len(slots)])

                hooks.enter_context(
                    layers[tap].register_forward_pre_hook(keep)
                    if tap < len(layers)
                    else layers[-1].register_forward_hook(keep)
                )
            yield
