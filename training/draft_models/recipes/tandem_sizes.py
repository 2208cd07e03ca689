"""The sizes of a Tandem decoder for a given target, and which of the target's weights it starts from.

What may live here: the network's sizes and initial weights, for `tandem` and `block`. It may not know losses or
batches.
"""

from __future__ import annotations

import torch

from common.draft_models.layers import DecoderLayer
from common.draft_models.tandem import TandemConfig, TandemDraft
from common.models.parts import layers_of, stack_of
from common.protocol.errors import MisuseError
from training.draft_models.decoder_recipe import DecoderSize
from training.draft_models.features import FrozenTarget
from training.draft_models.layer_sizes import fitted_layer, least_size
from training.draft_models.target_weights import copy_layer, copy_norm

LAYERS = 2


def tandem_config(target: FrozenTarget, layers: int, size: float, state_width: int | None = None) -> TandemConfig:
    """`size`: trainable parameters, the server's half among them, in layers of the target. `state_width`: numbers that
    travel for each token, by default twice the width of a layer's keys, as `moa`'s. Raises MisuseError for values that
    make no draft."""
    hidden, total = target.config.hidden_size, target.config.num_hidden_layers
    width = 2 * target.key_value_size if state_width is None else state_width
    if width < 1:
        raise MisuseError(f"--state-width must be at least 1, not {width}")
    taps = tuple(dict.fromkeys(total * number // layers for number in range(1, layers + 1)))
    return TandemConfig(fitted_layer(target, layers, size, 2 * layers * hidden * width), layers, taps, width)


def default_size(target: FrozenTarget, layers: int) -> float:
    """`size` where none is chosen, for states as wide as `moa`'s: that of any small decoder, or the least."""
    states = 2 * layers * target.config.hidden_size * 2 * target.key_value_size
    return max(DecoderSize.size, least_size(target, layers, beside=states))


@torch.no_grad()
def warm_start(draft: TandemDraft, target: FrozenTarget) -> None:
    """The first layer starts from the target's first, whose input is the same, the others from its last ones."""
    theirs, count = layers_of(target.model), len(draft.layers)
    copy_norm(draft.norm, getattr(stack_of(target.model), "norm", None))
    for number, layer in enumerate(draft.layers):
        assert isinstance(layer, DecoderLayer)
        copy_layer(layer, theirs[max(0, len(theirs) - count + number) if number else 0], target.model)
