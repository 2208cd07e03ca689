"""`dflash`: one forward over masked positions behind the last token, with the target's fused states as keys and values
(Chen et al. 2026, arXiv 2602.06036), and the tree of `predicted_blocks.py`.

As published, the one token of a block that is known is the newest, and all before it have state. Here state may lag, so
that all tokens behind the newest state enter the block, the last `LEAD` of them at most.
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.draft_models.dflash import KIND, DflashDraft, load_dflash
from common.draft_models.layers import beside, full_attention
from common.drafters.block_only_drafter import BlockOnlyDrafter
from common.drafters.load import DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.predicted_blocks import Block, shortlist
from common.drafters.received import ReceivedKeyValues
from common.drafters.state_values import state_values
from common.models.decoder import CausalLm
from common.protocol.draft_state import FUSED
from common.protocol.messages import State

LEAD = 40
"""Known tokens of a block at most, which is also the longest lag of a training."""


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft = load_dflash(config.directory)
    tail = load_tail_for(draft, config, draft.config.layer.hidden)
    head = drafting_head(tail)

    def make() -> BlockOnlyDrafter:
        network = DflashNetwork(draft, tail, head, config.context)
        return BlockOnlyDrafter(network, config.request, config.expansion, config.ranking)

    return make


class DflashNetwork:
    kind = KIND

    def __init__(self, draft: DflashDraft, tail: CausalLm, head: nn.Module, context: int):
        """`tail` has the target's embedding, `head` is its head. `context`: tokens of the longest sequence."""
        shape = draft.config.layer
        self._draft = draft
        self._embedding = tail.get_input_embeddings()
        self._head = head
        self._like = torch.empty(0, dtype=tail.dtype, device=tail.device)
        self._received = [ReceivedKeyValues(shape.kv_heads, shape.head_dim, context, self._like) for _ in draft.layers]
        self.computed = 0  # rows that have been through the network

    @property
    def length(self) -> int:
        """Positions that a block predicts."""
        return self._draft.config.length - 1

    @property
    def newest_state(self) -> int:
        return self._received[0].newest

    @torch.inference_mode()
    def absorb(self, states: Sequence[State]) -> None:
        """Takes draft state of committed positions. Raises PeerError for a corrupt frame."""
        for state in states:
            if state.kind == FUSED:
                values = state_values(state, self._like, self._draft.config.layer.hidden)
                at = torch.arange(state.start, state.start + len(values), device=self._like.device)
                made = self._draft.keys_values(values[None], at[None])
                for received, (keys, layer_values) in zip(self._received, made, strict=True):
                    received.put(state.start, keys[0], layer_values[0])

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        for received in self._received:
            received.forget(keep)

    @torch.inference_mode()
    def predict_block(self, tokens: Sequence[int], path: Sequence[int]) -> Block:
        """The block whose anchor is the end of the `path` behind the committed `tokens`."""
        end = len(tokens) + len(path)
        first = max(self.newest_state + 1, end - LEAD)
        # The newest token enters a block, whatever state it may have.
        known = [*tokens, *path][min(first, end - 1) :]
        rows = torch.tensor([known + [self._draft.config.mask] * self.length], device=self._like.device)
        self.computed += rows.shape[1]
        positions = torch.arange(end - len(known), end + self.length, device=self._like.device)[None]
        attention = [beside(received.keys_values(), full_attention) for received in self._received]
        out = self._draft(self._embedding(rows), positions, attention)
        logits = self._head(out[0, len(known) :])
        likeliest = shortlist(logits)
        return Block(len(tokens), tuple(path), self.newest_state, logits[:, likeliest], likeliest)

    def logits(self, block: Block, paths: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """`[paths, K]` of the block's tokens behind each path through it, which depend on its length alone."""
        return block.hidden[[len(path) for path in paths]]
