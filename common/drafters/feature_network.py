"""The network of drafts that continue the target's features: it drafts from the features that have arrived, elsewhere
from its own predictions of them (EAGLE-1/2, Li et al. 2024, arXiv 2401.15077 and 2406.16858; EAGLE-3, Li et al. 2025,
arXiv 2503.01840).

It may know slots and decoder layers, not which kind of draft it is, trees, sessions or how state travels.

Row i stands for token i + 1, so the first token of a sequence has none. In the first layer a row's keys and values
depend on its own input alone: when a state arrives, the K/V of the row after it are written anew, and of a draft of one
layer only rows after the newest state are run again. The prediction of a row inside a gap may thus be older than the
K/V that it attends to; it serves as a feature until the gap is filled. In further layers they depend on the rows before
as well. There the rows of states that are newer than all others are run again, and when no gap is left, all rows behind
the first state that came late.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from common.draft_models.layers import Attention
from common.drafters.drafter import NOTHING
from common.drafters.packed_layer import PackedLayer
from common.drafters.state_values import state_values
from common.integers import Integers
from common.models.key_values import zeros_on_demand
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest

_PASSES = 3
"""The most runs of one forward, where features of rows are predictions of other rows of the same forward: a row that
depends on fewer predictions is exact, the others take the last run's. Running a prompt without draft state token by
token would be too slow."""


class FeatureDraft(Protocol):
    """What `FeatureNetwork` runs; a feature is a vector `[E]` of a token.

    `config` has the layers' shapes as `layers`, and as `hidden` the E of features."""

    @property
    def config(self) -> Any: ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The first gives device and dtype."""
        ...

    def enter(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """The rows' inputs `[B, T, ...]` from the tokens' embeddings and the features before them, `[B, T, E]` each."""
        ...

    def keys_values(self, entered: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each, of the first layer, and of the rows' inputs alone."""
        ...

    def __call__(self, entered: torch.Tensor, rows: torch.Tensor, *attention: Attention) -> torch.Tensor:
        """The predicted features `[B, T, E]` of rows `[B, T]`, counted from 0 at the second token; `attention` is that
        of each layer."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSource:
    """A draft with what it needs around it. `kind`: the draft's; `state`: the kind of draft state that its features
    are. `embedding` maps tokens to `[..., E]`, `head` features to the logits of `columns`, int64 `[columns]`, None for
    the whole vocabulary."""

    kind: str
    state: str
    draft: FeatureDraft
    embedding: nn.Module
    head: Callable[[torch.Tensor], torch.Tensor]
    columns: torch.Tensor | None = None


class FeatureNetwork:
    renews_nodes = False  # nodes hang on the predictions of those above, which cannot be run all at once

    def __init__(self, source: FeatureSource, request: StateRequest, context: int, spare: int):
        """`spare` slots beside a `context` hold the tree."""
        self.kind = source.kind
        self.state: StateRequest | None = request
        self.capacity = context + spare
        embedding: Any = source.embedding  # plain or quantised
        like, vocabulary = next(iter(source.draft.parameters())), int(embedding.num_embeddings)
        self.columns = None if source.columns is None else source.columns.to(like.device)
        self._state_kind = source.state
        self._draft = source.draft
        self._embedding = source.embedding
        self._head = source.head
        self._options = vocabulary if self.columns is None else len(self.columns)
        self._layers = [PackedLayer(shape, self.capacity, vocabulary, like) for shape in source.draft.config.layers]
        self._newest = NOTHING
        self._first_late = self.capacity  # the first position whose state came after a newer one
        features = (self.capacity, source.draft.config.hidden)
        self._known_CE, self._predicted_SE = (zeros_on_demand(features, like.dtype, like.device) for _ in range(2))
        self._arrived_C = torch.zeros(self.capacity, dtype=torch.bool, device=like.device)
        self._tokens_S = torch.zeros(self.capacity, dtype=torch.long, device=like.device)

    @torch.inference_mode()
    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        before = self._newest
        for state in states:
            if state.kind == self._state_kind:
                values = state_values(state, self._known_CE, self._known_CE.shape[1])
                self._first_late = min(self._first_late, state.start if state.start <= before else self.capacity)
                self._take(state.start, values, past_slots)
        changed = self._newest + 1
        if len(self._layers) > 1:
            changed = min(changed, before + 2)
            if bool(self._arrived_C[: self._newest + 1].all()):
                changed, self._first_late = min(changed, self._first_late + 1), self.capacity
        return min(changed, max(0, len(past_slots) - 1))

    def forget(self, keep: int) -> None:
        self._arrived_C[keep:] = False
        left = self._arrived_C.nonzero()
        self._newest = int(left[-1]) if len(left) else NOTHING

    @torch.inference_mode()
    def forward(self, segment: Segment) -> torch.Tensor:
        rows, shift = _without_first_token(segment)
        if shift:
            self._predicted_SE[int(segment.slots[0])] = 0.0
        if rows is None:
            # A first token has no row: all next tokens are equally likely.
            uniform = self._known_CE.new_full((len(segment.wanted), self._options), 1.0 / self._options)
            return uniform.float().log()
        plan = self._layers[0].plan(rows)
        attention = [layer.attention(plan) for layer in self._layers]
        numbers, slots = plan.positions[0], plan.attention.written_slots
        self._remember(plan.token_ids[0], slots)
        arrived, known = self._arrived_C[numbers], self._known_CE[numbers]
        parents, runs = self._parents(segment, shift, arrived.tolist())
        embedded = self._embedding(plan.token_ids)
        for _ in range(min(max(runs) + 1, _PASSES)):
            features = torch.where(arrived[:, None], known, self._predicted_SE[parents])
            entered = self._draft.enter(embedded, features[None])
            out = self._draft(entered, plan.positions, *attention)[0]
            self._predicted_SE.index_copy_(0, slots, out)
        logits: torch.Tensor = self._head(out.index_select(0, plan.wanted_rows))
        return logits

    def _take(self, start: int, values: torch.Tensor, past_slots: Integers) -> None:
        """Hidden states of positions from `start`, and with them the K/V of the rows behind those positions."""
        end = start + len(values)
        self._known_CE[start:end] = values
        self._arrived_C[start:end] = True
        self._newest = max(self._newest, end - 1)
        slots = torch.tensor(past_slots[start + 1 : end + 1], dtype=torch.long, device=values.device)
        if len(slots):
            # Slots that have not been run yet hold no token of theirs; they will be before anything looks at them.
            embedded = self._embedding(self._tokens_S[slots])
            entered = self._draft.enter(embedded, values[: len(slots)])[None]
            rows = torch.arange(start, start + len(slots), device=values.device)[None]
            self._layers[0].write(slots, *self._draft.keys_values(entered, rows))

    def _remember(self, tokens: torch.Tensor, slots: torch.Tensor) -> None:
        """Predictions begin from nothing, except of a token that is run again in its slot."""
        self._predicted_SE.index_fill_(0, slots[self._tokens_S[slots] != tokens], 0.0)
        self._tokens_S.index_copy_(0, slots, tokens)

    def _parents(self, segment: Segment, shift: int, known: Sequence[bool]) -> tuple[torch.Tensor, list[int]]:
        """Of every new row, the slot of the token before it, and how many predicted features of this forward it hangs
        on, its own and those of the rows that it attends to."""
        first = len(segment.slots) - len(segment.tokens)
        last_past = int(segment.past_slots[-1]) if len(segment.past_slots) else 0
        slots: list[int] = []
        runs: list[int] = []
        for row, parent in enumerate(segment.parents[first + shift :]):
            slots.append(int(segment.slots[parent]) if parent >= 0 else last_past)
            inside = parent - first - shift
            runs.append(0 if inside < 0 else runs[inside] + (not known[row]))
        return torch.tensor(slots, device=self._tokens_S.device), runs


def _without_first_token(segment: Segment) -> tuple[Segment | None, int]:
    """The rows of a segment, None for none, and how many of its new tokens have no row."""
    if len(segment.past_slots):
        rows = Segment(segment.tokens, segment.slots, segment.parents, segment.past_slots[1:], segment.wanted)
        return rows, 0
    if len(segment.tokens) == 1:
        return None, 1
    return (
        Segment(
            tokens=segment.tokens[1:],
            slots=segment.slots[1:],
            parents=np.asarray(segment.parents[1:]) - 1,
            wanted=[row - 1 for row in segment.wanted],
        ),
        1,
    )
