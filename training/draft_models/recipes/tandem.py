"""`tandem`: a small decoder that attends to hidden states of the target, projected down, in one forward per batch.

What may live here: the sizes, the forward and the saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import nn

from common.draft_models.exporters import FusedExporter, StateExporter
from common.draft_models.layers import beside, masked_attention
from common.draft_models.state_fuse import StateFuse
from common.draft_models.tandem import KIND, TandemDraft, make_fuse, save_tandem
from common.drafters.tandem import TandemNetwork
from common.models.decoder import CausalLm
from common.protocol.messages import StateRequest
from training.draft_models.decoder_recipe import DecoderRecipe, DecoderSize
from training.draft_models.features import FrozenTarget
from training.draft_models.lags import Received
from training.draft_models.recipe import Batch, Features
from training.draft_models.recipes.tandem_sizes import LAYERS, default_size, tandem_config, warm_start
from training.draft_models.taps import needs_of, tapped

# Shape letters: R rows, T columns, W state width, E hidden size.


class TandemRecipe(DecoderRecipe):
    kind = KIND

    def __init__(self, target: FrozenTarget, size: DecoderSize, state_width: int | None = None):
        """`state_width`: numbers that travel for each token, by default twice the width of a layer's keys, as `moa`'s.
        Raises MisuseError for values that make no draft."""
        super().__init__(target, size)
        config = tandem_config(target, size.layers, size.size, state_width)
        self.needs = needs_of(target, config.taps)
        self.draft = TandemDraft(config)
        self.fuse = make_fuse(config)
        self.module = nn.ModuleDict({"draft": self.draft, "fuse": self.fuse})
        warm_start(self.draft, target)

    def predict(self, batch: Batch, features: Features, received: Received, positions: torch.Tensor) -> torch.Tensor:
        states = self.fuse(tapped(self._target, features, self.draft.config.taps))
        both = masked_attention(received.seen_or_own[:, None])
        attention = [beside(made, both) for made in self.draft.keys_values(states, positions)]
        out: torch.Tensor = self.draft(self._target.embedding(batch.ids).float(), positions, attention)
        return out.to(self._target.model.dtype)

    def network(self, tail: CausalLm, request: StateRequest, context: int, spare: int) -> TandemNetwork:
        draft = cast(TandemDraft, self.copied(self.draft))
        return TandemNetwork(draft, tail, self._target.head, request, context, spare)

    def exporter(self) -> StateExporter:
        return FusedExporter(cast(StateFuse, self.copied(self.fuse)), self.draft.config.taps)

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "states": f"{self.draft.config.state_width} numbers"}

    def save(self, out: Path) -> None:
        draft, fuse = copy.deepcopy(self.draft).bfloat16(), copy.deepcopy(self.fuse).bfloat16()
        save_tandem(out, self._target.fingerprint, draft, fuse)


def build(
    target: FrozenTarget,
    layers: int = LAYERS,
    size: float | None = None,
    state_width: int | None = None,
    missing: float = 0.0,
    alone: float = 0.0,
) -> TandemRecipe:
    """As `TandemRecipe`."""
    size = default_size(target, layers) if size is None else size
    return TandemRecipe(target, DecoderSize(layers, size, missing, alone), state_width)
