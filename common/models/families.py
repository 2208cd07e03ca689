"""Which model families run here, with which rotary positions, and the sizes that their configurations state in more
than one way. Adding a family means adding its row, and a row to the tests' families."""

from collections.abc import Iterator
from typing import Any

from common.models.errors import CheckpointError
from common.protocol.plain import plain

SUPPORTED = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""`model_type` of the configuration -> the family's name. All share one module layout."""


def check_family(model_type: str) -> None:
    """Raises `CheckpointError` for a family that is not supported."""
    if model_type not in SUPPORTED:
        names = ", ".join(SUPPORTED.values())
        raise CheckpointError(f"the model type '{model_type}' is not supported; use one of: {names}.")


def check_positions(directory: object, config: Any) -> None:
    """Raises `CheckpointError` for rotary positions that are scaled by the largest position of a forward: a pass holds
    many sessions, so that one session's length would change the factors of the others and of the K/V that it keeps."""
    for rope_type in _rope_types(getattr(config, "rope_parameters", None)):
        if rope_type == "longrope" or "dynamic" in rope_type:
            raise CheckpointError(
                f"the checkpoint in {directory} scales its positions by the longest sequence of a pass (rope type "
                f"'{plain(rope_type, 20)}'), which would let sessions change each other's answers; use a checkpoint "
                "whose rope type is default, linear, yarn or llama3."
            )


def _rope_types(parameters: object) -> Iterator[str]:
    """The rope types of all layers, each of which may have parameters of its own."""
    if isinstance(parameters, dict):
        yield str(parameters.get("rope_type"))
        for each in parameters.values():
            yield from _rope_types(each)


def head_size(config: Any) -> int:
    """Numbers of one attention head; some configurations leave it to be derived."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def key_width(config: Any) -> int:
    """E_kv: numbers of one layer's keys of one token, all key/value heads together."""
    return int(config.num_key_value_heads) * head_size(config)
