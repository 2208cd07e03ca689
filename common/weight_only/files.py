"""Safetensors files of quantised weights: writing them from plain ones, and reading them by memory map.

Beside a quantised weight's numbers, which keep the tensor's name, lie its scales under `NAME.scales`; the file's
metadata name the mode. All other tensors are as they were. It may not know bundles, models or drafts.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open

from common.weight_only.modes import GROUP, INT8, QUANTISED, is_quantisable
from common.weight_only.stream import ALIGNMENT_BYTES, PADDING, StreamedTensor, write_safetensors
from common.weight_only.weight import QuantisedWeight, quantise

WEIGHTS_SUFFIX = ".safetensors"

_MODE_KEY = "outrider_weights"
_SCALES = ".scales"
_ROWS = 4096  # that are quantised at once


def quantise_file(source: Path, mode: str, out: Path) -> None:
    """Writes `out`, holding a few thousand rows in memory at a time. Raises OSError or SafetensorError."""
    streamed: dict[str, StreamedTensor] = {}
    with safe_open(source, framework="pt") as held:
        for name in held.keys():  # noqa: SIM118 - it is no mapping
            tensor = held.get_tensor(name)
            if is_quantisable(name, tensor.shape, tensor.is_floating_point()):
                streamed |= _quantised(name, tensor, mode)
            else:
                streamed[name] = StreamedTensor(tensor.dtype, tensor.shape, partial(lambda each: [each], tensor))
        write_safetensors(out, streamed, {**(held.metadata() or {}), _MODE_KEY: mode})


def _quantised(name: str, tensor: torch.Tensor, mode: str) -> dict[str, StreamedTensor]:
    rows, columns = tensor.shape
    scales: list[torch.Tensor] = []

    def numbers() -> Iterator[torch.Tensor]:
        for start in range(0, rows, _ROWS):
            part = quantise(tensor[start : start + _ROWS], mode)
            scales.append(part.scales)
            yield part.packed

    whole = mode == INT8
    dtype, stored = (torch.int8, columns) if whole else (torch.uint8, columns // 2)
    return {
        name: StreamedTensor(dtype, (rows, stored), numbers),
        name + _SCALES: StreamedTensor(
            torch.bfloat16, (rows,) if whole else (rows, columns // GROUP, 2), lambda: scales
        ),
    }


def quantise_directory(source: Path, mode: str, out: Path) -> None:
    """Writes a copy of a directory to `out` with all safetensors files quantised. Raises as `quantise_file` does."""
    for file in sorted(source.rglob("*")):
        copied = out / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == WEIGHTS_SUFFIX:
            quantise_file(file, mode, copied)
        elif file.is_file():
            shutil.copyfile(file, copied)


def mode_of(file: Path) -> str | None:
    """The mode in which a safetensors file is quantised, None for a plain one. Raises OSError or SafetensorError."""
    with safe_open(file, framework="pt") as held:
        mode = (held.metadata() or {}).get(_MODE_KEY)
        return mode if mode in QUANTISED else None


def read_mapped(file: Path) -> dict[str, torch.Tensor]:
    """The tensors by name, of which quantised ones are `QuantisedWeight`s. Numbers stay in the mapped file: a page
    takes memory once it is read. Raises OSError, SafetensorError, and ValueError for scales that do not fit."""
    with safe_open(file, framework="pt") as held:
        mode = (held.metadata() or {}).get(_MODE_KEY)
        tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 - it is no mapping
    if mode is None:
        return tensors
    for name in [each for each in tensors if each.endswith(PADDING)]:
        del tensors[name]
    for name in [each for each in tensors if each + _SCALES in tensors]:
        tensors[name] = _checked(file, name, mode, tensors[name], tensors.pop(name + _SCALES))
    return tensors


def _checked(file: Path, name: str, mode: str, packed: torch.Tensor, scales: torch.Tensor) -> QuantisedWeight:
    if mode in QUANTISED and packed.ndim == 2 and packed.dtype == (torch.int8 if mode == INT8 else torch.uint8):
        rows, columns = packed.shape
        if scales.dtype is torch.bfloat16 and scales.shape == (
            (rows,) if mode == INT8 else (rows, 2 * columns // GROUP, 2)
        ):
            return QuantisedWeight.of(mode, _aligned(packed), scales, (file, name))
    raise ValueError(f"'{name}' is not quantised as {mode}")


def _aligned(packed: torch.Tensor) -> torch.Tensor:
    """A copy where a file that somebody else wrote is not aligned, on which the kernels would end the process."""
    return packed if packed.data_ptr() % ALIGNMENT_BYTES == 0 else packed.clone()
