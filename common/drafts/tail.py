"""The end of a target as a checkpoint of its own: embedding, last layers, final norm, head.

What may live here: writing that directory from the target's tensors without loading the others, and reading it. It is
an ordinary checkpoint of the target's family, so that nothing else need know where it came from. It may not know
drafts, bundles or slots.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel

from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.source import CONFIG, WEIGHTS, read_json, weight_files

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.*)")
_HIDDEN_LAYERS = "num_hidden_layers"
_PER_LAYER = "layer_types"


def write_tail(target: Path, layers: int, out: Path) -> None:
    """Writes the target's embedding, last `layers` layers, norm and head to `out`.

    Raises CheckpointError where the target has fewer layers, or cannot be read.
    """
    config = read_json(target / CONFIG)
    total = int(config[_HIDDEN_LAYERS])
    if not 0 <= layers <= total:
        raise CheckpointError(f"the target has {total} layers, so its last {layers} cannot be taken; choose fewer.")
    tensors: dict[str, torch.Tensor] = {}
    for file in weight_files(target):
        tensors |= _read_end(file, total - layers)
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / WEIGHTS, metadata={"format": "pt"})
    (out / CONFIG).write_text(json.dumps(_end_of(config, layers), indent=2) + "\n", encoding="utf-8")


def load_tail(directory: Path, layers: int, device: str | torch.device, dtype: str | torch.dtype) -> PreTrainedModel:
    """The last `layers` layers of what `write_tail` wrote, layer indices from 0.

    Raises CheckpointError where it holds fewer, or cannot be loaded.
    """
    model = load_causal_lm(directory, device, dtype)
    stack: Any = model.model
    held = len(stack.layers)
    if layers > held:
        raise CheckpointError(f"{directory} holds the target's last {held} layers, not {layers}; choose fewer.")
    stack.layers = stack.layers[held - layers :]
    for index, layer in enumerate(stack.layers):
        layer.self_attn.layer_idx = index
    config: Any = model.config
    config.num_hidden_layers = layers
    if getattr(config, _PER_LAYER, None):
        config.layer_types = config.layer_types[held - layers :]
    return model


def _read_end(file: Path, first: int) -> dict[str, torch.Tensor]:
    try:
        with safe_open(file, framework="pt") as source:
            names = {name: _renumbered(name, first) for name in source.keys()}  # noqa: SIM118 - it is no mapping
            return {new: source.get_tensor(old) for old, new in names.items() if new is not None}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read; fetch the checkpoint again.") from error


def _renumbered(name: str, first: int) -> str | None:
    """The tensor's name in the tail, None where it belongs to an earlier layer."""
    layer = _LAYER.fullmatch(name)
    if layer is None:
        return name
    index = int(layer[1]) - first
    return f"model.layers.{index}.{layer[2]}" if index >= 0 else None


def _end_of(config: dict[str, Any], layers: int) -> dict[str, Any]:
    total = int(config[_HIDDEN_LAYERS])
    end = config | {_HIDDEN_LAYERS: layers}
    if isinstance(config.get(_PER_LAYER), list):
        end[_PER_LAYER] = config[_PER_LAYER][total - layers :]
    # Qwen2 names the first layer that uses a sliding window by its number.
    if "max_window_layers" in config:
        end["max_window_layers"] = max(0, int(config["max_window_layers"]) - (total - layers))
    return end
