"""The configuration of a smaller model of the target's family.

What may live here: choosing sizes. It may not know losses or how the model runs.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig

from common.models.checkpoint import load_config
from common.models.families import differs_by_layer, feed_forward_name, feed_forward_width, head_size, key_value_heads
from common.models.parts import layers_of
from common.models.source import QUANTISATION
from common.protocol.errors import MisuseError
from training.draft_models.features import FrozenTarget

DEFAULT_LAYERS = 2
_MULTIPLE = 8  # of the feed-forward part's width


def sized_config(
    target: FrozenTarget, layers: int | None = None, hidden: int | None = None, parameters: int | None = None
) -> PreTrainedConfig:
    """The target's configuration with `layers` layers and a hidden size of `hidden`, by default the one whose
    parameters, the embedding counted once, come closest to `parameters`; by default as many as two target layers have.

    Heads keep the target's size, as many as fit the width; the feed-forward part keeps its proportion; embedding and
    head are tied. Raises MisuseError for sizes below 1, for a hidden size that is no multiple of a head's, for more
    layers than the target has where its family names the kind of each, and for a target whose layers differ in their
    sizes or whose configuration has another name for the feed-forward part's width.
    """
    for name, value in (("layers", layers), ("hidden-size", hidden), ("parameters", parameters)):
        if value is not None and value < 1:
            raise MisuseError(f"--{name} must be at least 1, not {value}")
    if hidden is not None and parameters is not None:
        raise MisuseError("--hidden-size and --parameters name one size twice: pass one of them")
    if differs_by_layer(target.config):
        raise MisuseError(
            f"the layers of {target.name} differ in their sizes, and no smaller model is made of such; train eagle3 or "
            "another kind"
        )
    kinds = getattr(target.config, "layer_types", None)
    if kinds and layers is not None and layers > len(kinds):
        raise MisuseError(f"--layers must be at most {len(kinds)} for {target.name}, whose layers differ, not {layers}")
    chosen = layers or min(DEFAULT_LAYERS, len(kinds or ()) or DEFAULT_LAYERS)
    size = head_size(target.config)
    if hidden is not None:
        if hidden % size:
            raise MisuseError(
                f"--hidden-size must be a multiple of {size}, the size of the target's heads, not {hidden}"
            )
        return _config(target, chosen, hidden)
    wanted = parameters or 2 * _layer_parameters(target)
    widths = range(size, target.config.hidden_size + size, size)
    return min((_config(target, chosen, width) for width in widths), key=lambda each: abs(count(each) - wanted))


def count(config: PreTrainedConfig) -> int:
    """Parameters of the model, without making it."""
    family: Any = AutoModelForCausalLM
    with torch.device("meta"):
        return sum(each.numel() for each in family.from_config(config).parameters())


def _config(target: FrozenTarget, layers: int, hidden: int) -> PreTrainedConfig:
    config: Any = load_config(target.directory)
    # The draft's weights are plain numbers, however the target's are stored.
    if hasattr(config, QUANTISATION):
        delattr(config, QUANTISATION)
    like: Any = target.config
    size = head_size(like)
    heads = hidden // size
    shared = like.num_attention_heads // key_value_heads(like)
    config.hidden_size, config.num_hidden_layers = hidden, layers
    config.num_attention_heads, config.head_dim = heads, size
    if hasattr(config, "num_key_value_heads"):
        config.num_key_value_heads = gcd(heads, max(1, heads // shared))
    width = feed_forward_width(like) * hidden / like.hidden_size
    setattr(config, feed_forward_name(like), max(_MULTIPLE, round(width / _MULTIPLE) * _MULTIPLE))
    config.tie_word_embeddings = True
    # Of the target's last layers, which are the ones that a family treats specially.
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[-layers:]
    if hasattr(config, "max_window_layers"):
        config.max_window_layers = min(config.max_window_layers, layers)
    return config  # type: ignore[no-any-return]


def _layer_parameters(target: FrozenTarget) -> int:
    return sum(each.numel() for each in layers_of(target.model)[0].parameters())
