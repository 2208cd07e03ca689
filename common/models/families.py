"""What a checkpoint's configuration says about its model: whether it is a causal language model that passes can run at
all, and sizes that configurations state in more than one way.

No list of families may live here: which models passes run correctly is measured (`agreement.py`). What is refused here
is what a short measurement cannot show.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.draft_kinds import KIND_KEY
from common.models.errors import CheckpointError
from common.protocol.plain import plain

_CAUSAL = ("ForCausalLM", "LMHeadModel")
"""How the names of transformers' causal language models end."""


def check_causal_lm(directory: object, config: Mapping[str, Any]) -> None:
    """Raises `CheckpointError` where config.json says that this is no decoder of text that predicts the next token."""
    if KIND_KEY in config:
        raise CheckpointError(
            f"{directory} holds a draft model of the kind '{plain(str(config[KIND_KEY]), 40)}', which is no complete "
            "model: give it as --draft, and the checkpoint that it was trained for as --target"
        )
    if not isinstance(config.get("model_type"), str):
        raise CheckpointError(
            f"the configuration in {directory} names no model_type; save the checkpoint again with transformers"
        )
    model_type = plain(config["model_type"], 40)
    if config.get("is_encoder_decoder"):
        raise CheckpointError(
            f"the checkpoint in {directory} is an encoder with a decoder (model type '{model_type}'); choose a causal "
            "language model"
        )
    if "text_config" in config:
        raise CheckpointError(
            f"the checkpoint in {directory} reads more than text (model type '{model_type}'); save its language model "
            "as a checkpoint of its own"
        )
    named = config.get("architectures")
    if isinstance(named, list) and named and not any(str(each).endswith(_CAUSAL) for each in named):
        raise CheckpointError(
            f"the checkpoint in {directory} is a {plain(str(named[0]), 60)}, which is no causal language model; choose "
            "one"
        )


def check_positions(directory: object, config: Any) -> None:
    """Raises `CheckpointError` for attention that is scaled by a token's row in a forward: a pass holds many sessions.
    It begins to differ beyond thousands of tokens only."""
    if config.model_type.startswith("llama4") and getattr(config, "attn_temperature_tuning", False):
        raise CheckpointError(
            f"the checkpoint in {directory} scales its attention by a token's row in a pass (attn_temperature_tuning), "
            "which would let sessions change each other's answers; choose another checkpoint"
        )


def required_context(config: Any, name: object) -> int:
    """As `context_of`, of the checkpoint of that name or folder. Raises CheckpointError where there is none."""
    context = context_of(config)
    if context is None:
        raise CheckpointError(
            f"the configuration in {name} names no longest context; add max_position_embeddings to it"
        )
    return context


def context_of(config: Any) -> int | None:
    """Tokens of the longest sequence that passes may run, None where the configuration names no longest one.

    `longrope` and `dynamic` choose the frequencies of a whole forward by its longest sequence. A pass holds many
    sessions, so that a long one would change the others and the K/V that they keep. Up to the positions that the
    checkpoint was trained for before it was extended there is one choice only, and sequences end there.

    `yarn` extends what the checkpoint was trained for by a factor. Some configurations state what results, as
    DeepSeek's do; others what it was before, as the model cards of Qwen2.5 and Qwen3 have it written.
    """
    stated = getattr(config, "max_position_embeddings", None)
    if not isinstance(stated, int):
        return None
    parameters = list(_rope_parameters(getattr(config, "rope_parameters", None)))
    # `dynamic` extends beyond what is stated, `longrope` up to it.
    trained = [_original(each) or stated for each in parameters if each["rope_type"] == "longrope"]
    extended = [_extended(each) for each in parameters if each["rope_type"] == "yarn"]
    return min([max([stated, *extended]), *trained])


def _original(rope_parameters: Mapping[str, Any]) -> int:
    """The positions that the checkpoint was trained for before it was extended; 0 where that is not said."""
    return int(rope_parameters.get("original_max_position_embeddings") or 0)


def _extended(rope_parameters: Mapping[str, Any]) -> int:
    """The positions after that; 0 without a factor, where what is stated counts, and for one that is none."""
    factor = rope_parameters.get("factor")
    if not isinstance(factor, int | float) or not math.isfinite(factor):
        return 0
    return int(_original(rope_parameters) * factor)


def depends_on_longest(config: Any) -> bool:
    """Whether frequencies beyond `context_of` depend on the longest sequence of a forward, for which see there."""
    parameters = _rope_parameters(getattr(config, "rope_parameters", None))
    return any(each["rope_type"] == "longrope" or "dynamic" in each["rope_type"] for each in parameters)


def has_position_table(config: Any) -> bool:
    """Whether a forward looks positions up in a table that ends at `context_of`, as GPT-2's and OPT's do."""
    return context_of(config) is not None and not getattr(config, "rope_parameters", None)


def _rope_parameters(parameters: object) -> Iterator[dict[str, Any]]:
    """Of all layers, each of which may have parameters of its own."""
    if isinstance(parameters, dict):
        if isinstance(parameters.get("rope_type"), str):
            yield parameters
        for each in parameters.values():
            yield from _rope_parameters(each)


def layer_configs(config: Any) -> Sequence[Any]:
    """The configuration of each layer. Where layers differ, as Gemma 4's in the size of their heads, transformers
    raises an error for whoever reads what differs from the whole model's."""
    return config.per_layer_config if differs_by_layer(config) else [config] * int(config.num_hidden_layers)


def differs_by_layer(config: Any) -> bool:
    """Whether layers have configurations of their own."""
    return bool(getattr(config, "is_heterogeneous", False))


def _last_layer(config: Any) -> Any:
    return config.per_layer_config[-1] if differs_by_layer(config) else config


def head_size(config: Any) -> int:
    """Numbers of one attention head, in the last layer where layers differ; some configurations leave it to be
    derived."""
    config = _last_layer(config)
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def key_value_heads(config: Any) -> int:
    """Of one layer, the last where layers differ; families that group no heads have no name for them."""
    config = _last_layer(config)
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def feed_forward_name(config: Any) -> str:
    """What the configuration calls its `feed_forward_width`. Raises `CheckpointError` for another name than these."""
    for name in ("n_inner", "intermediate_size"):
        if hasattr(config, name):
            return name
    raise CheckpointError(
        f"the configuration of the model type '{plain(config.model_type, 40)}' gives its feed-forward parts no width "
        "as n_inner or intermediate_size; choose another target"
    )


def feed_forward_width(config: Any) -> int:
    """Numbers between the two halves of a feed-forward part; null stands for four times the hidden size. Raises
    `CheckpointError` as `feed_forward_name` does."""
    return int(getattr(config, feed_forward_name(config)) or 4 * config.hidden_size)


def key_width(config: Any) -> int:
    """E_kv: numbers of one layer's keys of one token, all key/value heads together; of the last layer where layers
    differ."""
    config = _last_layer(config)
    if getattr(config, "qk_nope_head_dim", None):  # latent attention, whose keys are kept as the attention gets them
        return key_value_heads(config) * int(config.qk_nope_head_dim + config.qk_rope_head_dim)
    return key_value_heads(config) * head_size(config)


def value_width(config: Any) -> int:
    """As `key_width`, of values; those of latent attention are of another width than its keys."""
    config = _last_layer(config)
    own = getattr(config, "v_head_dim", None)
    return key_value_heads(config) * int(own) if own else key_width(config)


def key_value_widths(config: Any) -> set[int]:
    """Of the keys and of the values of any layer."""
    return {width(each) for each in layer_configs(config) for width in (key_width, value_width)}


def key_value_numbers(config: Any) -> int:
    """Of one token, the numbers of all layers' keys and values."""
    return sum(key_width(each) + value_width(each) for each in layer_configs(config))
