"""Sizes that a checkpoint's configuration states in more than one way. Nothing else may live here."""

from typing import Any


def head_size(config: Any) -> int:
    """Numbers of one attention head; some configurations leave it to be derived."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def key_width(config: Any) -> int:
    """E_kv: numbers of one layer's keys of one token, all key/value heads together."""
    return int(config.num_key_value_heads) * head_size(config)
