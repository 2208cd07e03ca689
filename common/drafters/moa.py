"""`moa`: Mixture of Attentions with target-layer inference (Zimmer et al. 2025, arXiv 2410.03804), drafting from
whatever draft state has arrived.

It may know the draft network, the target's tail and slots, not trees, sessions or how state travels.

The self-attention and the tail keep K/V by slot; the cross-attention keeps the received states' K/V by position.
A committed token's K/V in the tail are the draft's own until the target's arrive.
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.draft_models.moa import KIND, MoaDraft, load_moa
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.packed_layer import PackedLayer
from common.drafters.received import ReceivedKeyValues, TailKeyValues
from common.drafters.state_values import state_values
from common.drafters.tree_drafter import tree_factory
from common.integers import Integers
from common.models.attention import PassContext, run_layers, take_over
from common.models.decoder import CausalLm
from common.models.plan import PassPlan
from common.models.segment import Segment
from common.protocol.draft_state import KEY_VALUES, LSA
from common.protocol.messages import State, StateRequest


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken, MisuseError for a number of target
    layers that the draft was not trained for."""
    draft, kept = load_moa(config.directory, config.request.layers)
    tail = load_tail_for(draft, config, draft.config.hidden)

    head = drafting_head(tail, kept)

    return tree_factory(
        lambda: MoaNetwork(draft, tail, head, config.request, config.context, SPARE_SLOTS, kept), config
    )


class MoaNetwork:
    kind = KIND
    renews_nodes = True

    def __init__(
        self,
        draft: MoaDraft,
        tail: CausalLm,
        head: nn.Module,
        request: StateRequest,
        context: int,
        spare: int,
        kept: torch.Tensor | None = None,
    ):
        """`tail` ends in the `request.layers` target layers to run; `spare` slots beside a `context` hold the tree.
        `head` has the rows of the tail's for the `kept` tokens that it may propose, None for all."""
        self.state: StateRequest | None = request
        self.capacity = context + spare
        self._draft = draft
        self._tail = tail
        self._depth = request.layers
        self._like = torch.empty(0, dtype=tail.dtype, device=tail.device)
        self.columns = None if kept is None else kept.to(tail.device)
        self._head = head
        self._received = ReceivedStates(draft, context, self._like)
        self._sa = PackedLayer(draft.config.sa, self.capacity, tail.config.vocab_size, self._like)
        if self._depth:
            take_over(tail)
            self._tail_values = TailKeyValues(tail, self.capacity, context)

    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        for state in states:
            if state.kind == LSA:
                self._received.add(state.start, state_values(state, self._like, self._draft.config.sent_width))
            elif state.kind == KEY_VALUES and self._depth:
                # The feed may be that of a deeper draft.
                layers = max(self._depth, state.shape[1])
                values = state_values(state, self._like, layers, 2, self._tail_values.width)
                self._tail_values.add(state.start, values[:, -self._depth :], past_slots)
        # The pending tokens after the newest state, and with them the root, were computed from an older one.
        return min(self._received.newest + 1, max(0, len(past_slots) - 1))

    def forget(self, keep: int) -> None:
        self._received.forget(keep)
        if self._depth:
            self._tail_values.forget(keep)

    @torch.inference_mode()
    def forward(self, segment: Segment) -> torch.Tensor:
        plan = self._sa.plan(segment)
        embedded = self._tail.get_input_embeddings()(plan.token_ids)
        read = self._draft.read(embedded, plan.positions, self._sa.attention(plan))
        if self._depth:
            out = self._through_tail(plan, self._look_back(read, plan.positions))
        else:
            wanted = plan.wanted_rows
            out = self._look_back(read.index_select(1, wanted), plan.positions.index_select(1, wanted))[0]
        logits: torch.Tensor = self._head(out)
        return logits

    def _look_back(self, read: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        received = self._received
        return self._draft.look_back(read, positions, received.attention, received.keys_values())

    def _through_tail(self, plan: PassPlan, hidden: torch.Tensor) -> torch.Tensor:
        context = PassContext(self._tail_values.spare_arrived(plan).attention, self._tail_values.pool)
        out = run_layers(self._tail, context, plan.positions, hidden)[0]
        return out.index_select(0, plan.wanted_rows)


class ReceivedStates(ReceivedKeyValues):
    """The keys and values of received states in the cross-attention, computed once on arrival."""

    def __init__(self, draft: MoaDraft, context: int, like: torch.Tensor):
        """`like` gives dtype and device."""
        ca = draft.config.ca
        super().__init__(ca.kv_heads, ca.head_dim, context, like)
        self._draft = draft

    @torch.inference_mode()
    def add(self, start: int, states: torch.Tensor) -> None:
        """`states [S, W]` of positions from `start`, W numbers each."""
        at = torch.arange(start, start + len(states), device=states.device)
        keys, values = self._draft.ca.keys_values(self._draft.project_states(states)[None], at[None])
        self.put(start, keys[0], values[0])
