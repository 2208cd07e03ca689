"""`block`: a block draft for any target, many blocks of each sample in one forward.

What may live here: the losses, evaluation and saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from common.draft_models.block import KIND, BlockConfig, BlockDraft, save_block
from common.draft_models.exporters import FusedExporter
from common.draft_models.layers import beside, masked_attention
from common.draft_models.tandem import make_fuse
from common.drafters.block_network import BlockNetwork
from common.drafters.drafter import Drafter
from common.drafters.level_and_block_drafter import LevelAndBlockDrafter
from common.drafters.load import SPARE_SLOTS
from common.protocol.messages import StateRequest
from training.draft_models.blocks import Blocks, draw_blocks
from training.draft_models.divergence import divergences
from training.draft_models.exact_text import figure, percent
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.lags import Received, draw_received, lag_settings
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, RoundsSize, Tuning
from training.draft_models.recipes.tandem_sizes import LAYERS, default_size, tandem_config, warm_start
from training.draft_models.tail_forward import frozen_tail
from training.draft_models.taps import needs_of, tapped

# Shape letters: R rows, T columns, N blocks, B positions of a block, S learned positions, E hidden size.

LENGTH = 16
_BLOCKS_SHARE = 0.25
"""Blocks of a batch, for each learned position."""
_MARGINAL_WEIGHT = 0.3
"""Of the divergence without the correction, beside that with it."""


class BlockRecipe:
    kind = KIND

    def __init__(self, target: FrozenTarget, length: int, size: float, missing: float, alone: float, uncorrected: bool):
        """`length`: positions of a block. `size`: trainable parameters of what it shares with `tandem`, in layers of
        the target; the layer across a block is as large as one of these. `missing`, `alone`: as for `moa`.
        `uncorrected` leaves the correction along paths untrained, which then does nothing.

        Raises MisuseError for values that are no share, and where the size leaves nothing for the layers.
        """
        self._lags = lag_settings(missing, alone)
        trunk = tandem_config(target, LAYERS, size)
        self.config = BlockConfig(trunk, length, across=trunk.layer, correction=trunk.layer.hidden)
        self.needs = needs_of(target, trunk.taps)
        self.tuning = Tuning(rate=3e-3)
        self.fuse = make_fuse(trunk)
        self.draft = BlockDraft(self.config)
        self.module = nn.ModuleDict({"fuse": self.fuse, "draft": self.draft})
        self._target = target
        self._size = size
        self._uncorrected = uncorrected
        self._tail = frozen_tail(target, 0)
        _start(self.draft, target)

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        assert features.logits is not None
        trunk, received = self.draft.trunk, draw_received(batch, self._lags)
        states = self.fuse(tapped(self._target, features, trunk.config.taps))
        positions = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand_as(batch.ids)
        both = masked_attention(received.seen_or_own[:, None])
        *others, of_last = trunk.keys_values(states, positions)
        read = trunk.read(self._target.embedding(batch.ids).float(), positions, [beside(made, both) for made in others])
        # These layers draft levels of a tree by themselves, as `tandem` does.
        levels = trunk.last(read, positions, beside(of_last, both))
        logits = features.logits
        dense = self._divergences(levels[batch.learn], logits, torch.arange(len(logits), device=logits.device)).mean()
        blocks = draw_blocks(batch, self.config.length, _BLOCKS_SHARE)
        hidden = self._hidden(read, of_last, blocks, received)
        corrected = self._corrected(batch, blocks, hidden)
        weights = blocks.weights
        both_ways = torch.stack([corrected, hidden])[:, blocks.block, blocks.offset]
        each = self._divergences(both_ways, logits, blocks.learned)
        with_paths, alone = (each * weights).sum(dim=-1) / weights.sum()
        total = dense + (alone if self._uncorrected else with_paths + _MARGINAL_WEIGHT * alone)
        return LossParts(total, {"kl next": dense.detach(), "kl": with_paths.detach(), "kl alone": alone.detach()})

    def _divergences(self, predicted: torch.Tensor, logits: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
        """`[..., S]`, of hidden states `[..., S, E]` from the target's distributions at the `learned` positions."""
        read = self.draft.trunk.norm(predicted).to(self._target.model.dtype)
        return divergences(self._target.head, read, logits, learned)

    def _hidden(
        self, read: torch.Tensor, of_states: tuple[torch.Tensor, torch.Tensor], blocks: Blocks, received: Received
    ) -> torch.Tensor:
        """`[N, B, E]`, without the correction. `of_states`: the states' keys and values in the trunk's last layer."""
        columns = torch.arange(read.shape[1], device=read.device)
        own = self.draft.trunk.last.keys_values(read, columns.expand(read.shape[:2]))
        seen = received.seen[blocks.rows, blocks.columns]
        # Of each token before it, an anchor has either the state or what the draft made of it.
        keys, values = (
            torch.where(seen[:, None, :, None], state[blocks.rows], made[blocks.rows])
            for state, made in zip(of_states, own, strict=True)
        )
        reached = columns <= blocks.columns[:, None]
        return self.draft.predict_block(
            read[blocks.rows, blocks.columns],
            blocks.columns,
            masked_attention(reached[:, None, None]),
            (keys, values),
        )

    def _corrected(self, batch: Batch, blocks: Blocks, hidden: torch.Tensor) -> torch.Tensor:
        """`[N, B, E]`, each position behind the sample's own tokens."""
        length, last = self.config.length, batch.ids.shape[1] - 1
        columns = blocks.columns[:, None] + torch.arange(1, length, device=batch.ids.device)
        embedded = self._target.embedding(batch.ids[blocks.rows[:, None], columns.clamp(max=last)])
        path = self.draft.first_path(hidden[:, 0])
        paths = []
        for offset in range(length - 1):
            path = self.draft.next_path(path, embedded[:, offset].to(path.dtype))
            paths.append(path)
        behind = self.draft.corrected(hidden[:, 1:], torch.stack(paths, dim=1))
        return torch.cat([hidden[:, :1], behind], dim=1)

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        fuse = copy.deepcopy(self.fuse).to(self._target.model.dtype)
        exporters = [FusedExporter(fuse, self.config.trunk.taps)]
        return Evaluation({0: answer_all(self._target, self._drafter, exporters, prompts, size)})

    def save(self, out: Path) -> None:
        draft, fuse = copy.deepcopy(self.draft).bfloat16(), copy.deepcopy(self.fuse).bfloat16()
        save_block(out, self._target.fingerprint, draft, fuse)

    def describe(self) -> Mapping[str, str]:
        return {
            "positions of a block": str(self.config.length),
            "size": f"{figure(self._size)} target layers, and the layer across a block",
            "correction along paths": "untrained" if self._uncorrected else "recurrent",
            "samples that lack a span of state": percent(self._lags.missing),
            "samples whose state stops for good": percent(self._lags.alone),
        }

    def _drafter(self, context: int) -> Drafter:
        target, request = self._target, StateRequest("trained")
        draft = copy.deepcopy(self.draft).to(target.model.dtype)
        return LevelAndBlockDrafter(BlockNetwork(draft, self._tail, target.head, request, context, SPARE_SLOTS))


def build(
    target: FrozenTarget,
    length: int = LENGTH,
    size: float | None = None,
    missing: float = 0.0,
    alone: float = 0.0,
    uncorrected: bool = False,
) -> BlockRecipe:
    """As `BlockRecipe`."""
    size = default_size(target, LAYERS) if size is None else size
    return BlockRecipe(target, length, size, missing, alone, uncorrected)


@torch.no_grad()
def _start(draft: BlockDraft, target: FrozenTarget) -> None:
    """The layers that it shares with `tandem` start as these do. The others start as if they were not there, and masks
    as the anchor's own reading."""
    warm_start(draft.trunk, target)
    nn.init.eye_(draft.carry.weight)
    nn.init.normal_(draft.masks, std=0.02)
    for silent in (draft.across.o_proj, draft.across.down_proj, draft.correct):
        nn.init.zeros_(silent.weight)
