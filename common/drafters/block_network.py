"""Runs a block draft's network: one forward for a block, and the recurrent correction along paths through it.

It may not know trees, or which block is worth computing. The self-attention keeps K/V by position, of committed tokens
alone; the tokens from there to an anchor are computed with its block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from common.codec import decode
from common.draft_models.block import KIND, BlockDraft
from common.draft_models.vocabulary import trim_head
from common.drafters.marginals import Block
from common.drafters.packed_layer import PackedLayer
from common.drafters.received import ReceivedStates
from common.models.decoder import CausalLm
from common.models.parts import head_of
from common.models.segment import Segment
from common.protocol.draft_state import LSA
from common.protocol.messages import State

_CHUNK = 512  # committed tokens of one forward
_SPARE = 512  # slots for tokens that are not committed
_SHORTLIST = 64
"""Tokens of each place that a block may propose. So its one forward multiplies by the whole head once, for all places;
the levels of a tree through it multiply by some hundred rows of the head, whatever the vocabulary."""


@dataclass(frozen=True, eq=False)
class _Shortlisted(Block):
    """`tokens`, int64 [K]: the likeliest of all places, from which it proposes. `head`: the head's rows for them."""

    tokens: torch.Tensor = field(kw_only=True)
    head: nn.Module = field(kw_only=True)


class BlockNetwork:
    kind = KIND

    def __init__(self, draft: BlockDraft, tail: CausalLm, context: int):
        """`tail` has the target's embedding and head. `context`: tokens of the longest sequence."""
        self._draft = draft
        self._embedding = tail.get_input_embeddings()
        self._head = head_of(tail)
        self._like = torch.empty(0, dtype=tail.dtype, device=tail.device)
        self._vocabulary = tail.config.vocab_size
        self._received = ReceivedStates(draft.trunk, context, self._like)
        self._sa = PackedLayer(draft.config.trunk.sa, context + _SPARE, tail.config.vocab_size, self._like)
        self._read = 0  # leading positions whose K/V are held
        self.computed = 0  # tokens that have been through the network

    @property
    def length(self) -> int:
        """Positions of a block."""
        return self._draft.config.length

    @property
    def newest_state(self) -> int:
        return self._received.newest

    def absorb(self, states: Sequence[State]) -> None:
        """Takes draft state of committed positions. Raises PeerError for a corrupt frame."""
        for state in states:
            if state.kind == LSA:
                values = decode(state.payload, state.dtype, state.shape)[: state.count].to(self._like)
                self._received.add(state.start, values)

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        self._received.forget(keep)
        self._read = min(self._read, keep)

    @torch.inference_mode()
    def look_ahead(self, tokens: Sequence[int], path: Sequence[int]) -> Block:
        """The block whose anchor is the end of the `path` behind the committed `tokens`."""
        while len(tokens) - self._read > _CHUNK:
            self._read_on(tokens[self._read : self._read + _CHUNK])
            self._read += _CHUNK
        read, positions = self._read_on([*tokens[self._read :], *path])
        # What comes out for the last token is wanted again, so its K/V count as not held.
        self._read = len(tokens) - 1
        attention = self._received.attention
        places = self._draft.look_ahead(read[:, -1], positions[:, -1], attention, self._received.keys_values())[0]
        likeliest = self._head(self._draft.norm(places)).topk(min(_SHORTLIST, self._vocabulary)).indices.unique()
        head = trim_head(self._head, likeliest)
        return _Shortlisted(len(tokens), tuple(path), self._received.newest, places, tokens=likeliest, head=head)

    def _read_on(self, tokens: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Self-attention of tokens behind those that are held, `[1, T, E]`, and their positions `[1, T]`."""
        self.computed += len(tokens)
        slots = range(self._read, self._read + len(tokens))
        segment = Segment(tokens, slots, range(-1, len(tokens) - 1), past_slots=range(self._read), wanted=())
        plan = self._sa.plan(segment)
        read = self._draft.trunk.read(self._embedding(plan.token_ids), plan.positions, self._sa.attention(plan))
        return read, plan.positions

    @torch.inference_mode()
    def logits(self, block: Block, paths: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """`[paths, vocabulary]` of the tokens behind each path through the block, minus infinity for all but its
        tokens."""
        assert isinstance(block, _Shortlisted)
        self._walk(block, paths)
        places = block.places[[len(path) for path in paths]]
        corrected = self._draft.corrected(places, torch.stack([block.states[path] for path in paths]))
        # Place 0 knows all before it.
        first = torch.tensor([not path for path in paths], device=places.device)[:, None]
        of_tokens: torch.Tensor = block.head(self._draft.norm(torch.where(first, places, corrected)))
        logits = of_tokens.new_full((len(paths), self._vocabulary), -torch.inf)
        return logits.index_copy_(1, block.tokens, of_tokens)

    def _walk(self, block: Block, paths: Sequence[tuple[int, ...]]) -> None:
        """Makes the recurrent states of these paths and of those that lead to them."""
        if () not in block.states:
            block.states[()] = self._draft.first_path(block.places[:1])[0]
        missing = {path[:end] for path in paths for end in range(1, len(path) + 1)} - block.states.keys()
        for length in sorted({len(path) for path in missing}):
            level = [path for path in missing if len(path) == length]
            tokens = torch.tensor([path[-1] for path in level], device=self._like.device)
            before = torch.stack([block.states[path[:-1]] for path in level])
            block.states.update(zip(level, self._draft.next_path(before, self._embedding(tokens)), strict=True))
