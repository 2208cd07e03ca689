"""Writes checkpoints with random weights in the shape of a target, one shard in memory at a time.

What may live here: drawing and saving weights, and the files beside them. It may not know draft models or processes.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel
from transformers.utils import logging

from common.models.source import CONFIG, SHARD_INDEX
from netem.experiments.one_device.dimensions import build
from netem.experiments.sizes.chat_tokenizer import make_tokenizer, special_id
from netem.experiments.sizes.targets import SizedTarget

_SHARD_BYTES = 1 << 30
_EMBEDDING_STD = 0.02
_LENGTHS_STD = 0.3
"""Of the logarithm of the lengths of the embedding's rows. Were all as long as each other, the two likeliest of so many
tokens would be too near to each other to be told apart in bfloat16."""


_GENERATION = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
"""As published checkpoints have it."""


def write_checkpoint(
    directory: Path,
    target: SizedTarget,
    dtype: torch.dtype,
    seed: int,
    last_layers: int | None = None,
    device: str = "cpu",
) -> Path:
    """Writes the target, or its embedding, `last_layers`, norm and head alone; returns `directory`. Weights depend on
    the arguments alone: `device` draws them, a GPU in a hundredth of the time."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    sizes = target.dimensions
    directory.mkdir(parents=True)
    model = build(sizes, last_layers)
    ends = list(end_tokens(target))
    _write_json(directory / CONFIG, _config(model, target, ends, dtype))
    _write_json(directory / "generation_config.json", _GENERATION | {"eos_token_id": ends})
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if sizes.tied:
        del shapes["lm_head.weight"]
    _write_shards(directory, shapes, dtype, torch.Generator(device).manual_seed(seed))
    make_tokenizer(target.chat, sizes.vocabulary).save_pretrained(directory)
    return directory


def end_tokens(target: SizedTarget) -> tuple[int, ...]:
    return tuple(special_id(target.chat, target.dimensions.vocabulary, name) for name in target.ends)


def _config(model: PreTrainedModel, target: SizedTarget, ends: list[int], dtype: torch.dtype) -> dict[str, Any]:
    return model.config.to_dict() | {
        **target.options,
        "architectures": [type(model).__name__],
        "dtype": str(dtype).removeprefix("torch."),
        "bos_token_id": None,
        "eos_token_id": ends,
        "pad_token_id": None,
    }


def _write_shards(
    directory: Path, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, generator: torch.Generator
) -> None:
    """Shards as the hub has them, numbered, with an index; no more than one is in memory."""
    groups: list[list[str]] = []
    room = 0
    for name, shape in shapes.items():
        size = math.prod(shape) * dtype.itemsize
        if size > room:
            groups.append([])
            room = _SHARD_BYTES
        groups[-1].append(name)
        room -= size
    weight_map: dict[str, str] = {}
    for number, names in enumerate(groups, start=1):
        file = f"model-{number:05}-of-{len(groups):05}.safetensors"
        save_file({name: _drawn(name, shapes[name], dtype, generator) for name in names}, directory / file)
        weight_map |= dict.fromkeys(names, file)
    _write_json(directory / SHARD_INDEX, {"metadata": {}, "weight_map": weight_map})


def _drawn(name: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if "norm" in name:
        return torch.ones(shape, dtype=dtype)
    drawn = torch.empty(shape, dtype=dtype, device=generator.device).normal_(generator=generator)
    if "embed" in name or "lm_head" in name:
        lengths = torch.empty(shape[0], 1, device=generator.device).normal_(std=_LENGTHS_STD, generator=generator)
        return drawn.mul_(_EMBEDDING_STD * lengths.exp_()).cpu()
    return drawn.mul_(shape[-1] ** -0.5).cpu()


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
