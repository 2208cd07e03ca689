"""`dflash`: a DFlash draft for any target, many blocks of each sample in one forward.

What may live here: the loss, evaluation and saving of this kind. It may not know data, schedules or the loop. Unlike in
the paper, the target's distribution is learned, and state that lags or is missing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from common.draft_models.dflash import KIND, DflashConfig, DflashDraft, make_fuse, save_dflash
from common.draft_models.exporters import FusedExporter
from common.draft_models.layers import DecoderLayer, beside, masked_attention
from common.drafters.block_only_drafter import BlockOnlyDrafter
from common.drafters.dflash import LEAD, DflashNetwork
from common.drafters.drafter import Drafter
from common.models.parts import layers_of, stack_of
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.blocks import Blocks, draw_blocks
from training.draft_models.divergence import divergences
from training.draft_models.exact_text import figure, percent
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.lags import Received, draw_received, lag_settings
from training.draft_models.layer_sizes import fitted_layer, least_size
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, RoundsSize, Tuning
from training.draft_models.tail_forward import frozen_tail
from training.draft_models.taps import needs_of, tapped
from training.draft_models.target_weights import copy_layer, copy_norm

# Shape letters: R rows, T columns, N blocks, B rows of a block, S learned positions, E hidden size.

LENGTH = 16
LAYERS = 2
SIZE = 1.25
"""Trainable parameters, in layers of the target, where these leave something for the draft's layers."""

_BLOCKS_SHARE = 0.15
"""Blocks of a batch, for each learned position."""


class DflashRecipe:
    kind = KIND

    def __init__(self, target: FrozenTarget, length: int, layers: int, size: float, missing: float, alone: float):
        """`length`: rows of a block, its last known token among them. `size`: trainable parameters, in layers of the
        target. `missing`, `alone`: as for `moa`. Raises MisuseError for values that make no draft."""
        if length < 2:
            raise MisuseError(f"--length must be at least 2, not {length}")
        self._lags = lag_settings(missing, alone)
        taps = published_taps(target.config.num_hidden_layers, layers)
        layer = fitted_layer(target, layers, size, beside=_fuse_parameters(target, layers), head_norms=True)
        mask = _mask_token(target)
        config = DflashConfig(layer, layers, length, mask, taps, target.config.vocab_size)
        self.needs = needs_of(target, taps)
        self.tuning = Tuning(rate=3e-3)
        self.draft, self.fuse = DflashDraft(config), make_fuse(config)
        self.module = nn.ModuleDict({"draft": self.draft, "fuse": self.fuse})
        self._target = target
        self._size = size
        self._tail = frozen_tail(target, 0)
        theirs = layers_of(target.model)
        copy_norm(self.draft.norm, getattr(stack_of(target.model), "norm", None))
        for number, own in enumerate(self.draft.layers):
            assert isinstance(own, DecoderLayer)
            copy_layer(own, theirs[max(0, len(theirs) - layers + number)], target.model)

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        assert features.logits is not None
        received = draw_received(batch, self._lags)
        blocks = draw_blocks(batch, self.draft.config.length - 1, _BLOCKS_SHARE)
        states = self.fuse(tapped(self._target, features, self.draft.config.taps))
        predicted = self._hidden(batch, states, blocks, received)[blocks.block, blocks.offset]
        read = predicted.to(self._target.model.dtype)
        each = divergences(self._target.head, read, features.logits, blocks.learned)
        total = (each * blocks.weights).sum() / blocks.weights.sum()
        first = each[blocks.offset == 0].mean()
        return LossParts(total, {"kl": total.detach(), "kl next": first.detach()})

    def _hidden(self, batch: Batch, states: torch.Tensor, blocks: Blocks, received: Received) -> torch.Tensor:
        """`[N, B, E]` of the masked rows, from `states [R, T, E]`."""
        config, device = self.draft.config, batch.ids.device
        newest = received.newest[blocks.rows, blocks.columns]
        lead = min(LEAD, int((blocks.columns - newest).max()))
        at = blocks.columns[:, None] + torch.arange(1 - lead, config.length, device=device)
        is_known = at <= blocks.columns[:, None]
        visible = ~is_known | (at > newest[:, None]) & (at >= 0)
        known = batch.ids[blocks.rows[:, None], at.clamp(0, batch.ids.shape[1] - 1)]
        ids = torch.where(is_known, known, config.mask)
        positions = torch.arange(states.shape[1], device=device).expand(len(states), -1)
        seen = torch.cat([received.seen[blocks.rows, blocks.columns], visible], dim=-1)
        both = masked_attention(seen[:, None, None])
        made = self.draft.keys_values(states, positions)
        attention = [beside((keys[blocks.rows], values[blocks.rows]), both) for keys, values in made]
        out: torch.Tensor = self.draft(self._target.embedding(ids).float(), at.clamp(min=0), attention)
        return out[:, lead:]

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        fuse = copy.deepcopy(self.fuse).to(self._target.model.dtype)
        exporters = [FusedExporter(fuse, self.draft.config.taps)]
        return Evaluation({0: answer_all(self._target, self._drafter, exporters, prompts, size)})

    def save(self, out: Path) -> None:
        draft, fuse = copy.deepcopy(self.draft).bfloat16(), copy.deepcopy(self.fuse).bfloat16()
        save_dflash(out, self._target.fingerprint, draft, fuse)

    def describe(self) -> Mapping[str, str]:
        config = self.draft.config
        return {
            "rows of a block": str(config.length),
            "layers": str(config.layers),
            "size": f"{figure(self._size)} target layers",
            "hidden states that enter layers": ", ".join(map(str, config.taps)),
            "samples that lack a span of state": percent(self._lags.missing),
            "samples whose state stops for good": percent(self._lags.alone),
        }

    def _drafter(self, context: int) -> Drafter:
        draft = copy.deepcopy(self.draft).to(self._target.model.dtype)
        network = DflashNetwork(draft, self._tail, self._target.head, context)
        return BlockOnlyDrafter(network, StateRequest("trained"))


def build(
    target: FrozenTarget,
    length: int = LENGTH,
    layers: int = LAYERS,
    size: float | None = None,
    missing: float = 0.0,
    alone: float = 0.0,
) -> DflashRecipe:
    """As `DflashRecipe`."""
    size = default_size(target, layers) if size is None else size
    return DflashRecipe(target, length, layers, size, missing, alone)


def default_size(target: FrozenTarget, layers: int) -> float:
    """`size` where none is chosen: `SIZE`, or the least."""
    return max(SIZE, least_size(target, layers, beside=_fuse_parameters(target, layers)))


def _fuse_parameters(target: FrozenTarget, layers: int) -> int:
    hidden: int = target.config.hidden_size
    return len(published_taps(target.config.num_hidden_layers, layers)) * hidden**2


def published_taps(target_layers: int, layers: int) -> tuple[int, ...]:
    """As many as the draft has `layers`, evenly from what leaves the target's second layer to what leaves its third
    last one but one, as the authors choose them; of one layer the middle. A short target has fewer."""
    if layers == 1:
        return (target_layers // 2 + 1,)
    first, last = 1, max(1, target_layers - 3)
    spread = [round(first + number * (last - first) / (layers - 1)) for number in range(layers)]
    return tuple(dict.fromkeys(number + 1 for number in spread))


def _mask_token(target: FrozenTarget) -> int:
    """A token that no answer holds, if there is one: that for padding, unless it was added to the tokenizer alone."""
    tokenizer: Any = target.tokenizer
    padding = int(tokenizer.pad_token_id or 0)
    return padding if padding < target.config.vocab_size else 0
