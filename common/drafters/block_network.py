"""Runs a block draft's network: levels of a tree as `tandem` does, a block behind one of their nodes in the same
forward, and the recurrent correction along paths through it.

It may not know trees, or which block is worth computing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from common.draft_models.block import KIND, BlockDraft
from common.draft_models.layers import full_attention
from common.draft_models.vocabulary import trim_head
from common.drafters.predicted_blocks import Block, Path, shortlist
from common.drafters.tandem import TandemNetwork
from common.models.decoder import CausalLm
from common.models.segment import Segment, path_slots
from common.protocol.messages import StateRequest


@dataclass(frozen=True, eq=False)
class _WithHead(Block):
    """`head`: the head's rows for its tokens."""

    head: nn.Module = field(kw_only=True)


class BlockNetwork(TandemNetwork):
    kind = KIND

    def __init__(
        self, draft: BlockDraft, tail: CausalLm, head: nn.Module, request: StateRequest, context: int, spare: int
    ):
        """As `TandemNetwork`."""
        super().__init__(draft.trunk, tail, head, request, context, spare)
        self._draft = draft

    @property
    def length(self) -> int:
        """Positions of a block."""
        return self._draft.config.length

    @property
    def newest_state(self) -> int:
        return self._arrived.newest

    @torch.inference_mode()
    def forward_ahead(self, segment: Segment, wanted: int, start: int, lead: Path) -> tuple[torch.Tensor, Block]:
        draft, level = self._draft, self.level(segment)
        positions = draft.block_positions(level.positions[:, wanted])
        # They see what the anchor sees, the anchor included, and not each other.
        slots = torch.from_numpy(path_slots(segment, int(segment.wanted[wanted]))).to(self._like.device)
        seen = self._layers[-1].read(slots)
        behind = self._trunk.last(draft.masked(level.inputs[:, wanted]), positions[:, 1:], full_attention, seen)
        block = draft.among(torch.cat([level.outputs[:, wanted : wanted + 1], behind], dim=1), positions)
        # One product with the whole head, which may be most of what a level costs.
        rows = level.outputs.shape[1]
        logits = self._head(self._trunk.norm(torch.cat([level.outputs, block], dim=1))[0])
        tokens = shortlist(logits[rows:])
        head = trim_head(self._head, tokens)
        return logits[:rows], _WithHead(start, lead, self.newest_state, block[0], tokens, head=head)

    @torch.inference_mode()
    def logits(self, block: Block, paths: Sequence[Path]) -> torch.Tensor:
        """`[paths, K]` of the block's tokens behind each path through it, which is not empty: what follows an anchor is
        the forward's own."""
        assert isinstance(block, _WithHead)
        self._walk(block, paths)
        hidden = block.hidden[[len(path) for path in paths]]
        corrected = self._draft.corrected(hidden, torch.stack([block.states[path] for path in paths]))
        logits: torch.Tensor = block.head(self._trunk.norm(corrected))
        return logits

    def _walk(self, block: Block, paths: Sequence[Path]) -> None:
        """Makes the recurrent states of these paths and of those that lead to them."""
        if () not in block.states:
            block.states[()] = self._draft.first_path(block.hidden[:1])[0]
        missing = {path[:end] for path in paths for end in range(1, len(path) + 1)} - block.states.keys()
        for length in sorted({len(path) for path in missing}):
            level = [path for path in missing if len(path) == length]
            tokens = torch.tensor([path[-1] for path in level], device=self._like.device)
            before = torch.stack([block.states[path[:-1]] for path in level])
            block.states.update(zip(level, self._draft.next_path(before, self._embedding(tokens)), strict=True))
