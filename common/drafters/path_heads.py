"""The network of heads that depend on the path, Hydra's and Clover's: from the newest hidden state that has arrived,
through the tokens after it.

It may know slots and segments, not which kind of heads they are, trees, sessions or how state travels.

The target itself gives the token after a state, so that a row whose path from the state has K tokens is head K - 1's.
Where the state lags behind, the path begins with tokens that are committed already, and the heads read those: nothing
of a head is lost, but the tree is so much less deep. Behind the last head no token is possible. Nothing is
kept of a row but its token: its path is read anew, which costs a few products of vectors and lets a newer state renew
all rows at once.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from common.draft_models.layers import full_attention
from common.draft_models.path_heads import PathHeads
from common.drafters.drafter import NOTHING
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.state_values import state_values
from common.drafters.tree_drafter import tree_factory
from common.integers import Integers
from common.models.key_values import zeros_on_demand
from common.models.segment import Segment
from common.protocol.draft_state import HIDDEN
from common.protocol.messages import State, StateRequest


def factory_for(kind: str, draft: PathHeads, config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the tail is missing or broken."""
    tail = load_tail_for(draft, config, draft.config.hidden)
    embedding, head = tail.get_input_embeddings(), drafting_head(tail)

    return tree_factory(
        lambda: PathHeadsNetwork(kind, draft, embedding, head, config.request, config.context + SPARE_SLOTS), config
    )


class PathHeadsNetwork:
    renews_nodes = True
    columns: torch.Tensor | None = None

    def __init__(
        self,
        kind: str,
        draft: PathHeads,
        embedding: nn.Module,
        head: nn.Module,
        request: StateRequest,
        capacity: int,
    ):
        """`embedding` and `head` are the target's. `capacity`: slots, and the most positions."""
        self.kind = kind
        self.state: StateRequest | None = request
        self.capacity = capacity
        plain: Any = embedding  # plain or quantised
        self._vocabulary = int(plain.num_embeddings)
        self._draft = draft
        self._embedding = embedding
        self._head = head
        like = next(draft.parameters())
        self._hidden_CE = zeros_on_demand((capacity, draft.config.hidden), like.dtype, like.device)
        self._arrived_C = torch.zeros(capacity, dtype=torch.bool, device=like.device)
        self._positions: list[int] = []  # that have arrived, in order
        self._tokens_S = [0] * capacity
        self._bases: dict[int, torch.Tensor] = {}  # [E] by position, prepared for the heads
        layer = draft.config.layer
        if layer is not None:
            shape = (layer.kv_heads, capacity, layer.head_dim)
            self._keys_KCD, self._values_KCD = (zeros_on_demand(shape, like.dtype, like.device) for _ in range(2))

    @torch.inference_mode()
    def absorb(self, states: Sequence[State], past_slots: Integers) -> int:
        came = [state for state in states if state.kind == HIDDEN]
        for state in came:
            self._take(state.start, state_values(state, self._hidden_CE, self._draft.config.hidden))
        if not came:
            return len(past_slots)
        self._positions = self._arrived_C.nonzero().flatten().tolist()
        self._bases = {}
        return max(0, len(past_slots) - 1)

    def forget(self, keep: int) -> None:
        self._arrived_C[keep:] = False
        self._positions = [position for position in self._positions if position < keep]
        self._bases = {position: base for position, base in self._bases.items() if position < keep}

    @torch.inference_mode()
    def forward(self, segment: Segment) -> torch.Tensor:
        first = len(segment.slots) - len(segment.tokens)
        for slot, token in zip(segment.slots[first:], segment.tokens, strict=True):
            self._tokens_S[int(slot)] = int(token)
        logits = self._hidden_CE.new_full((len(segment.wanted), self._vocabulary), -torch.inf)
        # By the path's length: the index among the wanted rows, the state's position and the path.
        by_length: dict[int, list[tuple[int, int, list[int]]]] = defaultdict(list)
        for index, row in enumerate(segment.wanted):
            state, path = self._read_path(segment, first + int(row))
            if path:
                by_length[len(path)].append((index, state, path))
        for rows in by_length.values():
            indices, states, paths = (list(column) for column in zip(*rows, strict=True))
            tokens = torch.tensor(paths, device=logits.device)
            base = torch.stack([self._base(state) for state in states])
            logits[indices] = self._draft.logits(base, self._embedding(tokens), self._head).to(logits)
        return logits

    def _take(self, start: int, hidden: torch.Tensor) -> None:
        end = start + len(hidden)
        self._hidden_CE[start:end] = hidden
        self._arrived_C[start:end] = True
        if self._draft.prefix is not None and len(hidden):
            at = torch.arange(start, end, device=hidden.device)
            keys, values = self._draft.prefix.keys_values(hidden[None], at[None])
            self._keys_KCD[:, start:end], self._values_KCD[:, start:end] = keys[0], values[0]

    def _base(self, position: int) -> torch.Tensor:
        """What the heads read of the hidden state at `position`, `[E]`."""
        if self._draft.prefix is None:
            return self._hidden_CE[position]
        if position not in self._bases:
            seen = self._arrived_C[: position + 1]
            held = (self._keys_KCD, self._values_KCD)
            keys, values = (kept[:, : position + 1][:, seen][None] for kept in held)
            at = torch.tensor([[position]], device=seen.device)
            prepared = self._draft.prefix(self._hidden_CE[position][None, None], at, full_attention, (keys, values))
            self._bases[position] = prepared[0, 0]
        return self._bases[position]

    def _read_path(self, segment: Segment, branch: int) -> tuple[int, list[int]]:
        """The position of the newest state before a branch, and the tokens from there to the branch; none where there
        is no state or no head that reads so far."""
        path = [self._tokens_S[int(segment.slots[branch])]]
        above = int(segment.parents[branch])
        while above >= 0:
            path.append(self._tokens_S[int(segment.slots[above])])
            above = int(segment.parents[above])
        past = len(segment.past_slots)
        position = past + len(path) - 1
        state = next((held for held in reversed(self._positions) if held < position), NOTHING)
        length = position - state
        if state == NOTHING or length > self._draft.config.heads:
            return NOTHING, []
        further = length - len(path)
        slots = segment.past_slots[past - further : past] if further > 0 else ()
        return state, [*(self._tokens_S[int(slot)] for slot in slots), *reversed(path)][-length:]
