"""Writes the client's bundle of a `moa` draft with random weights, for targets of real sizes: memory and time do not
depend on the numbers.

A few thousand rows are in memory at a time. It may not know how a bundle is loaded or measured.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel

from common.bundle import TAIL_FOLDER
from common.draft_models.directory import DEPTHS_KEY, FINGERPRINT_KEY, KIND_KEY
from common.draft_models.moa import KIND, MoaConfig, MoaDraft
from common.models.source import CONFIG, WEIGHTS
from common.weight_only.files import quantise_directory
from common.weight_only.load import without_weights
from common.weight_only.modes import AS_IS
from common.weight_only.stream import StreamedTensor, write_safetensors
from netem.experiments.one_device.dimensions import TargetDimensions, build

_ROWS = 4096
_SPREAD = 0.02


def write_random_bundle(
    target: TargetDimensions, config: MoaConfig, layers: int, weights: str, plain: Path, out: Path
) -> None:
    """The tail of `target` with `layers` layers and the halves of all depths of `config`: in bfloat16 in `plain` unless
    it is there, and in the mode `weights` in `out`, which is not used for as-is."""
    if not (plain / CONFIG).is_file():
        tail = build(target, layers)
        _write(plain / TAIL_FOLDER, _tail_tensors(tail), tail.config.to_dict())
        halves = {depth: without_weights(_half(config, depth)) for depth in config.depths}
        shapes = {f"{depth}.{name}": each for depth, half in halves.items() for name, each in half.state_dict().items()}
        described = {KIND_KEY: KIND, FINGERPRINT_KEY: target.name, **config.to_json(), DEPTHS_KEY: list(config.depths)}
        _write(plain, shapes, described)
    if weights != AS_IS:
        quantise_directory(plain, weights, out)


def _half(config: MoaConfig, depth: int) -> Callable[[], nn.Module]:
    return lambda: MoaDraft(config, depth)


def _tail_tensors(tail: PreTrainedModel) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = tail.state_dict()
    if tail.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    return tensors


def _write(directory: Path, shapes: Mapping[str, torch.Tensor], config: Mapping[str, object]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    streamed = {
        name: StreamedTensor(torch.bfloat16, each.shape, _drawn(each.shape, seed))
        for seed, (name, each) in enumerate(shapes.items())
    }
    write_safetensors(directory / WEIGHTS, streamed, {"format": "pt"})
    (directory / CONFIG).write_text(json.dumps(config, indent=2, default=str) + "\n", encoding="utf-8")


def _drawn(shape: torch.Size, seed: int) -> Callable[[], Iterator[torch.Tensor]]:
    """Vectors are norms or biases: ones keep the scale of what passes."""

    def parts() -> Iterator[torch.Tensor]:
        if len(shape) == 1:
            yield torch.ones(shape, dtype=torch.bfloat16)
            return
        generator = torch.Generator().manual_seed(seed)
        for start in range(0, shape[0], _ROWS):
            rows = torch.empty(min(_ROWS, shape[0] - start), *shape[1:])
            yield rows.normal_(std=_SPREAD, generator=generator).to(torch.bfloat16)

    return parts
