"""`tandem`: a small decoder that attends to hidden states of the target, projected down, in one forward per batch.

What may live here: the sizes, the forward and the saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import torch
from torch import nn

from common.draft_models.exporters import FusedExporter, StateExporter
from common.draft_models.layers import DecoderLayer, beside, masked_attention
from common.draft_models.state_fuse import StateFuse
from common.draft_models.tandem import KIND, TandemConfig, TandemDraft, make_fuse, save_tandem
from common.drafters.tandem import TandemNetwork
from common.models.decoder import CausalLm
from common.models.parts import layers_of, stack_of
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.decoder_recipe import DecoderRecipe, DecoderSize
from training.draft_models.features import FrozenTarget
from training.draft_models.lags import Received, causal
from training.draft_models.layer_sizes import fitted_layer
from training.draft_models.recipe import Batch, Features
from training.draft_models.taps import needs_of, tapped
from training.draft_models.target_weights import copy_layer, copy_norm

# Shape letters: R rows, T columns, W state width, E hidden size.

LAYERS = 2


class TandemRecipe(DecoderRecipe):
    kind = KIND

    def __init__(self, target: FrozenTarget, size: DecoderSize, state_width: int | None = None):
        """`state_width`: numbers that travel for each token, by default twice the width of a layer's keys, as `moa`'s.
        Raises MisuseError for values that make no draft."""
        super().__init__(target, size)
        hidden, total = target.config.hidden_size, target.config.num_hidden_layers
        width = 2 * target.key_value_size if state_width is None else state_width
        if width < 1:
            raise MisuseError(f"--state-width must be at least 1, not {width}")
        taps = tuple(dict.fromkeys(total * number // size.layers for number in range(1, size.layers + 1)))
        beside = (len(taps) + size.layers) * hidden * width
        layer = fitted_layer(target, size.layers, size.size, beside)
        config = TandemConfig(layer, size.layers, taps, width)
        self.needs = needs_of(target, taps)
        self.draft = TandemDraft(config)
        self.fuse = make_fuse(config, hidden)
        self.module = nn.ModuleDict({"draft": self.draft, "fuse": self.fuse})
        _start(self.draft, target)

    def predict(self, batch: Batch, features: Features, received: Received, positions: torch.Tensor) -> torch.Tensor:
        states = self.fuse(tapped(self._target, features, self.draft.config.taps))
        own = causal(batch.ids) & ~received.seen
        both = masked_attention(torch.cat([received.seen, own], dim=-1)[:, None])
        attention = [beside(made, both) for made in self.draft.keys_values(states, positions)]
        out: torch.Tensor = self.draft(self._target.embedding(batch.ids).float(), positions, attention)
        return out.to(self._target.model.dtype)

    def network(self, tail: CausalLm, request: StateRequest, context: int, spare: int) -> TandemNetwork:
        return TandemNetwork(cast(TandemDraft, self.copied(self.draft)), tail, request, context, spare)

    def exporter(self) -> StateExporter:
        return FusedExporter(cast(StateFuse, self.copied(self.fuse)), self.draft.config.taps)

    def save(self, out: Path) -> None:
        draft, fuse = copy.deepcopy(self.draft).bfloat16(), copy.deepcopy(self.fuse).bfloat16()
        save_tandem(out, self._target.fingerprint, draft, fuse)


def build(
    target: FrozenTarget,
    layers: int = LAYERS,
    size: float = DecoderSize.size,
    state_width: int | None = None,
    missing: float = 0.0,
    alone: float = 0.0,
) -> TandemRecipe:
    """As `TandemRecipe`."""
    return TandemRecipe(target, DecoderSize(layers, size, missing, alone), state_width)


def _start(draft: TandemDraft, target: FrozenTarget) -> None:
    """The first layer starts from the target's first, whose input is the same, the others from its last ones."""
    theirs, count = layers_of(target.model), len(draft.layers)
    copy_norm(draft.norm, getattr(stack_of(target.model), "norm", None))
    for number, layer in enumerate(draft.layers):
        assert isinstance(layer, DecoderLayer)
        copy_layer(layer, theirs[max(0, len(theirs) - count + number) if number else 0], target.model)
