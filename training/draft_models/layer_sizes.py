"""The shape of a target's layer, for draft models made of such layers, and the number of its parameters."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from common.draft_models.layers import LayerShape
from common.models.families import feed_forward_width, head_size, key_value_heads
from common.models.parts import layers_of
from common.protocol.errors import MisuseError
from training.draft_models.features import FrozenTarget

LEAST_FEED_FORWARD = 0.5
"""The least width of a default draft's feed-forward parts, in hidden sizes of the target. Where attention is wide
beside hidden states, as in Qwen3-0.6B and gpt-oss-20b, it and a draft's state take more than a small draft has."""


def target_layer(target: FrozenTarget, *, input_norm: bool = True) -> LayerShape:
    """The shape of a decoder layer with the target's sizes."""
    config = target.config
    rope = getattr(config, "rope_parameters", None) or {}
    # A family may have neither these norms nor this projection.
    attention: Any = getattr(layers_of(target.model)[0], "self_attn", None)
    epsilon = getattr(config, "rms_norm_eps", None) or getattr(config, "layer_norm_eps", None) or 1e-5
    return LayerShape(
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=key_value_heads(config),
        head_dim=head_size(config),
        intermediate=feed_forward_width(config),
        rope_base=float(rope.get("rope_theta", 10_000.0)),
        epsilon=float(epsilon),
        input_norm=input_norm,
        attention_bias=getattr(getattr(attention, "q_proj", None), "bias", None) is not None,
    )


def fitted_layer(target: FrozenTarget, layers: int, size: float, beside: int, head_norms: bool = False) -> LayerShape:
    """The shape of each of `layers` layers like the target's, with feed-forward parts so wide that they have, with
    `beside` further weights, `size` times the parameters of a target's layer. Raises MisuseError where nothing is left
    for these parts."""
    shape = replace(target_layer(target), head_norms=head_norms)
    room = size * layer_parameters(shape) - beside - layers * layer_parameters(replace(shape, intermediate=0))
    intermediate = int(room / layers / (3 * shape.hidden))
    if intermediate < 1:
        raise MisuseError(f"--size {size:g} leaves nothing for the draft's layers; choose a larger one")
    return replace(shape, intermediate=intermediate)


def least_size(target: FrozenTarget, layers: int, beside: int) -> float:
    """The least `size` of a default draft: `fitted_layer` then leaves feed-forward parts of `LEAST_FEED_FORWARD`."""
    layer = target_layer(target)
    narrow = replace(layer, intermediate=math.ceil(LEAST_FEED_FORWARD * layer.hidden))
    least = (beside + layers * layer_parameters(narrow)) / layer_parameters(layer)
    return math.ceil(100 * least) / 100


def layer_parameters(shape: LayerShape) -> int:
    """The number of weights of one decoder layer, without norms and biases."""
    heads = shape.heads + shape.kv_heads
    return shape.hidden * (2 * heads * shape.head_dim + 3 * shape.intermediate)
