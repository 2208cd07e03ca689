"""The size of a `moa` draft for a given target, the rate of its states, and which of the target's weights it starts
from.

What may live here: the networks' sizes and initial weights. It may not know losses or batches.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from common.draft_models.layers import LayerShape, RmsNorm
from common.draft_models.lsa import MIXERS
from common.draft_models.moa import MoaConfig, MoaDraft
from common.draft_models.state_codec import StateCodec
from common.models.families import key_value_widths
from common.models.parts import layers_of, stack_of
from common.protocol.draft_state import WIRE_DTYPES
from common.protocol.errors import MisuseError
from training.draft_models.features import FrozenTarget
from training.draft_models.layer_sizes import LEAST_FEED_FORWARD, layer_parameters, target_layer
from training.draft_models.target_weights import copy_layer, copy_norm

DEFAULT_SIZE = 1.25
"""Trainable parameters of one N, in layers of the target: about the paper's 264 M beside Llama-3-8B's 218 M."""

CODEC_DTYPE = "int4"
"""Of a learnt codec where none is chosen."""

_MIXED_HEADS = 4  # of the published layer self-attention, where the state is narrow
_MIXED_HEAD_DIM = 64


def moa_config(
    target: FrozenTarget, depths: tuple[int, ...], size: float, mixer: str, final_norm: bool = True
) -> MoaConfig:
    """`size`: trainable parameters for one N, in layers of the target; self- and cross-attention get equal shares.
    `mixer`: of `common.draft_models.lsa`.

    Raises MisuseError for a target whose keys and values have different widths, and where N exceeds the target's
    layers, the size leaves nothing for the layers, or the mixer is unknown.
    """
    total = target.config.num_hidden_layers
    widths = sorted(key_value_widths(target.config))
    if len(widths) > 1:
        raise MisuseError(
            f"a moa draft is made of the target's keys and values, which have different widths in {target.name} "
            f"({' and '.join(map(str, widths))} numbers a layer); train eagle3 or another kind"
        )
    if not depths or not all(0 <= depth <= total for depth in depths):
        raise MisuseError(f"--layers must name numbers from 0 to the target's {total}, such as 0,1,3")
    layer = target_layer(target)
    hidden = layer.hidden
    room = size * layer_parameters(layer) - _without_feed_forward(target, mixer)
    intermediate = int(room / 2 / (3 * hidden))
    if intermediate < 1:
        raise MisuseError(f"--size {size:g} leaves nothing for the draft's layers; choose a larger one")
    both = replace(layer, intermediate=min(intermediate, 2 * layer.intermediate))
    mixed = _mixed_layer(target)
    return MoaConfig(
        hidden, total, mixed.hidden, depths, lsa=mixed, sa=both, ca=both, mixer=mixer, final_norm=final_norm
    )


def with_codec(config: MoaConfig, width: int | None, dtype: str | None) -> MoaConfig:
    """The same draft with a learnt codec of its states; None for as many numbers as they have, and for `CODEC_DTYPE`.
    Raises MisuseError for a rate that cannot be."""
    codec = StateCodec(config.state_width if width is None else width, dtype or CODEC_DTYPE)
    if not 1 <= codec.width <= config.state_width:
        raise MisuseError(f"--state-width must be from 1 to the {config.state_width} numbers of a state, not {width}")
    if codec.dtype not in WIRE_DTYPES:
        raise MisuseError(f"--state-dtype must be one of {', '.join(WIRE_DTYPES)}, not {dtype}")
    return replace(config, codec=codec)


def default_size(target: FrozenTarget, mixer: str) -> float:
    """`size` where none is chosen: `DEFAULT_SIZE`, or what feed-forward parts of `LEAST_FEED_FORWARD` need. Raises
    MisuseError where the mixer is unknown."""
    layer = target_layer(target)
    feed_forward = 2 * 3 * LEAST_FEED_FORWARD * layer.hidden**2
    least = (_without_feed_forward(target, mixer) + feed_forward) / layer_parameters(layer)
    return max(DEFAULT_SIZE, math.ceil(100 * least) / 100)


def _without_feed_forward(target: FrozenTarget, mixer: str) -> int:
    """Trainable parameters of one N but for the feed-forward parts of its two layers. Raises MisuseError where the
    mixer is unknown."""
    if mixer not in MIXERS:
        raise MisuseError(f"--mixer must be one of {', '.join(MIXERS)}, not {mixer}")
    layer, mixed = target_layer(target), _mixed_layer(target)
    with torch.device("meta"):
        server = sum(weights.numel() for weights in MIXERS[mixer](target.config.num_hidden_layers, mixed).parameters())
    attention = layer_parameters(replace(layer, intermediate=0))
    return server + (mixed.hidden + 1) * layer.hidden + 2 * attention


def _mixed_layer(target: FrozenTarget) -> LayerShape:
    width = 2 * target.key_value_size
    return LayerShape(width, *_mixed_heads(width), intermediate=width * 3 // 2)


@torch.no_grad()
def warm_start(draft: MoaDraft, target: FrozenTarget, depth: int) -> None:
    """Starts self-attention from the target's first layer, whose input is the same, and cross-attention from the last
    layer that the draft replaces. Feed-forward parts keep the target's largest units. The norm before the head is the
    target's final norm. What a family has under another name, or in another shape, stays as it was drawn."""
    model = target.model
    layers = layers_of(model)
    if isinstance(draft.norm, RmsNorm):
        copy_norm(draft.norm, getattr(stack_of(model), "norm", None))
    copy_layer(draft.sa, layers[0], model)
    copy_layer(draft.ca, layers[len(layers) - 1 - min(depth, len(layers) - 1)], model)


def _mixed_heads(width: int) -> tuple[int, int, int]:
    """Query heads, key/value heads and their size. Four query heads share keys, or as few more as divide them."""
    heads = max(_MIXED_HEADS, width // _MIXED_HEAD_DIM)
    shared = next(shared for shared in range(4, heads + 1) if heads % shared == 0)
    return heads, heads // shared, width // heads
