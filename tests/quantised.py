"""Small checkpoints with quantised linear layers, in published layouts, for all tests.

Each is made from a plain checkpoint, whose layout it keeps otherwise.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]

_BLOCK = 128
_GROUP = 16
_HIGHEST_FP8 = 448


def make_fp8(directory: Path, plain: Path, *, left_out: tuple[str, ...] = ()) -> Path:
    """FP8 with one scale for each block of 128 by 128, as Qwen3's. `left_out`: modules that are not quantised."""
    settings = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [_BLOCK, _BLOCK],
        "modules_to_not_convert": ["lm_head", *left_out],
    }
    return _make(directory, plain, settings, _fp8, left_out)


def make_int4(directory: Path, plain: Path) -> Path:
    """Packed int4 with one scale for each 16 inputs, as compressed-tensors writes it."""
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": _GROUP}
    settings = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    return _make(directory, plain, settings, _int4, ())


def _make(
    directory: Path,
    plain: Path,
    settings: dict[str, Any],
    stored: Callable[[str, torch.Tensor], Tensors],
    left_out: tuple[str, ...],
) -> Path:
    shutil.copytree(plain, directory)
    tensors: Tensors = {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        module = name.removesuffix(".weight")
        is_linear = module.endswith("_proj") and module not in left_out
        tensors |= stored(module, tensor.float()) if is_linear else {name: tensor.to(torch.bfloat16)}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((plain / "config.json").read_text())
    config |= {"dtype": "bfloat16", "quantization_config": settings}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def _fp8(module: str, weight: torch.Tensor) -> Tensors:
    rows, columns = (-(-size // _BLOCK) for size in weight.shape)
    padded = torch.zeros(rows * _BLOCK, columns * _BLOCK)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    blocks = padded.view(rows, _BLOCK, columns, _BLOCK)
    scales = blocks.abs().amax((1, 3)) / _HIGHEST_FP8
    scaled = (blocks / scales[:, None, :, None]).view_as(padded)[: weight.shape[0], : weight.shape[1]]
    return {f"{module}.weight": scaled.to(torch.float8_e4m3fn), f"{module}.weight_scale_inv": scales}


def _int4(module: str, weight: torch.Tensor) -> Tensors:
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    groups = weight.view(weight.shape[0], -1, _GROUP)
    scales = groups.abs().amax(2, keepdim=True) / 7
    values = (groups / scales).round().clamp(-8, 7).view_as(weight).to(torch.int8)
    return {
        f"{module}.weight_packed": pack_to_int32(values, 4),
        f"{module}.weight_scale": scales.squeeze(2).to(torch.bfloat16),
        f"{module}.weight_shape": torch.tensor(weight.shape),
    }
