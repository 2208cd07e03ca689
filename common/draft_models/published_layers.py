"""The sizes and variants of a published draft's layers, from its configuration and its tensors.

What may live here: reading configurations of Llama's form. It may not know any network, nor files of weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.draft_models.layers import LayerShape
from common.draft_models.layouts import Layout
from common.models.errors import CheckpointError
from common.models.rope import read_rope
from common.models.source import CONFIG, read_json

_LAYER_SETTINGS: Mapping[str, tuple[object, ...]] = {
    "attention_multiplier": (),
    "attn_logit_softcapping": (0,),
    "residual_multiplier": (1,),
    "scale_depth": (),
}
"""Of settings by which some families scale or cap what Llama does not, the values that change nothing, beside none."""
_EMBEDDING_SETTINGS: Mapping[str, tuple[object, ...]] = {
    "input_embedding_scale": (1,),
    "embedding_multiplier": (1,),
    "scale_emb": (1,),
}
_HEAD_SETTINGS: Mapping[str, tuple[object, ...]] = {
    "logit_scale": (1,),
    "logits_scaling": (1,),
    "output_multiplier": (1,),
    "dim_model_base": (),
    "final_logit_softcapping": (0,),
}
_MOST_LAYERS = 64
"""Layers that are read from a published directory, whatever it says."""


def layer_settings(layout: Layout, directory: Path) -> Mapping[str, Any]:
    """The part of a published configuration that is about layers. Raises CheckpointError where it cannot be read."""
    content = read_json(directory / CONFIG)
    settings = content.get(layout.layer_key, content) if layout.layer_key else content
    if not isinstance(settings, Mapping):
        raise CheckpointError(f"{directory / CONFIG} lacks the sizes of a Llama layer; fetch it again")
    return settings


def check_settings(
    said: Mapping[str, Any], directory: Path, *, own_embedding: bool = True, own_head: bool = True, **of_kind: object
) -> None:
    """Raises CheckpointError where a setting says that the draft computes in another way than Llama, or than `of_kind`
    has it. A draft without an embedding or head of its own uses the target's, as the target scales and caps them:
    such settings, which configurations copy from the target's, then change nothing."""
    without_effect = {
        **_LAYER_SETTINGS,
        **(_EMBEDDING_SETTINGS if own_embedding else {}),
        **(_HEAD_SETTINGS if own_head else {}),
        **{name: (value,) for name, value in of_kind.items()},
    }
    for name, values in without_effect.items():
        if said.get(name) not in (None, *values):
            raise CheckpointError(
                f"the draft in {directory} has a '{name}' of {said[name]}, which is not computed here; name another"
            )


def count_layers(layout: Layout, settings: Mapping[str, Any], names: Iterable[str], directory: Path) -> int:
    """The layers that a configuration states, or that published tensor `names` number, whichever are more; 1 in a
    layout that has one only.

    Raises CheckpointError where that cannot be.
    """
    if not layout.counts_layers:
        return 1
    numbered = [parts[1] for parts in (name.split(".") for name in names) if parts[0] == "layers" and len(parts) > 1]
    held = max((int(number) for number in numbered if number.isdecimal()), default=0) + 1
    try:
        count = max(int(settings.get("num_hidden_layers", 1)), held)
        if count > _MOST_LAYERS:
            raise ValueError("there are no such drafts")
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} states no number of layers; fetch it again") from error
    return count


def read_layer_shapes(
    settings: Mapping[str, Any], tensors: Iterable[str], directory: Path, layers: int = 1
) -> tuple[LayerShape, ...]:
    """The shapes of published layers, the first without input norm. Biases, and norms of heads, are read off the names
    `tensors`, which are ours; what a configuration leaves out is Llama's default.

    Raises CheckpointError where sizes are missing, or where a layer computes in a way that is not known here.
    """
    names = set(tensors)
    try:
        hidden, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
        first = LayerShape(
            hidden=hidden,
            heads=heads,
            kv_heads=int(settings.get("num_key_value_heads") or heads),
            head_dim=int(settings.get("head_dim") or hidden // heads),
            intermediate=int(settings["intermediate_size"]),
            epsilon=float(settings.get("rms_norm_eps", 1e-6)),
            input_norm=False,
            attention_bias="layer.q_proj.bias" in names,
            output_bias="layer.o_proj.bias" in names,
            head_norms="layer.q_norm.weight" in names,
        )
        windows = _sliding_windows(settings, layers)
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CheckpointError(f"{directory / CONFIG} lacks the sizes of a Llama layer; fetch it again") from error
    try:
        base, scaling = read_rope(settings)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the draft in {directory} turns a part of each head (partial_rotary_factor) or scales its rotary "
            "positions in a way that is not read here; name one whose rope type is default, linear, llama3 or "
            "yarn"
        ) from error
    if settings.get("hidden_act", "silu") != "silu":
        raise CheckpointError(f"the draft in {directory} has another activation than SiLU; name another")
    first = replace(first, rope_base=base, rope_scaling=scaling)
    return tuple(replace(first, input_norm=layer > 0, sliding_window=window) for layer, window in enumerate(windows))


def _sliding_windows(settings: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Of each layer, None where it sees everything: only layers that are called sliding slide."""
    types = settings.get("layer_types") or ()
    if settings.get("use_sliding_window") is False or "sliding_attention" not in types:
        return (None,) * layers
    window = int(settings["sliding_window"])
    if window < 1 or len(types) < layers:
        raise ValueError("a window or a layer's type is missing")
    return tuple(window if kind == "sliding_attention" else None for kind in types[:layers])
