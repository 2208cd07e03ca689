"""Safetensors files of quantised weights: writing them from plain ones, and reading them by memory map.

Beside a quantised weight's numbers, which keep the tensor's name, lie its scales under `NAME.scales`; the file's
metadata name the mode. All other tensors are as they were. It may not know bundles, models or drafts.
"""

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from common.protocol.errors import MisuseError
from common.weight_only.modes import GROUP, INT8, QUANTISED, SCALES_SUFFIX, WEIGHTS_SUFFIX, is_quantisable, padded
from common.weight_only.stream import ALIGNMENT_BYTES, DTYPE_NAMES, PADDING, StreamedTensor, write_safetensors
from common.weight_only.weight import QuantisedWeight, quantise

_MODE_KEY, _COLUMNS_KEY = "outrider_weights", "outrider_columns"
_ROWS = 512  # that are quantised at once, so that they stay in the cache of a core


def quantise_file(source: Path, mode: str, out: Path) -> None:
    """Writes `out`, holding a few hundred rows in memory at a time. Raises OSError or SafetensorError, and
    MisuseError for a file that is quantised already, and for numbers of a dtype that means nothing without scales of
    its own, such as float8."""
    streamed: dict[str, StreamedTensor] = {}
    columns: dict[str, int] = {}
    with safe_open(source, framework="pt") as held:
        before = (held.metadata() or {}).get(_MODE_KEY)
        if before is not None:  # its scales are small matrices, which would be quantised, and its weights would not
            raise MisuseError(f"{source} is quantised already, as {before}: quantise the file that it was made from")
        for name in held.keys():  # noqa: SIM118 - it is no mapping
            tensor = held.get_tensor(name)
            if tensor.dtype not in DTYPE_NAMES:
                raise MisuseError(f"{source} holds '{name}' in {tensor.dtype}, which cannot be quantised again")
            if is_quantisable(name, tensor.shape, tensor.is_floating_point()):
                streamed |= _quantised(name, tensor, mode)
                columns[name] = tensor.shape[1]
            else:
                streamed[name] = StreamedTensor(tensor.dtype, tensor.shape, partial(lambda each: [each], tensor))
        write_safetensors(
            out, streamed, {**(held.metadata() or {}), _MODE_KEY: mode, _COLUMNS_KEY: json.dumps(columns)}
        )


def _quantised(name: str, tensor: torch.Tensor, mode: str) -> dict[str, StreamedTensor]:
    rows, columns = len(tensor), padded(tensor.shape[1])
    whole = mode == INT8
    dtype, stored = (torch.int8, columns) if whole else (torch.uint8, columns // 2)
    # In one piece: small ones that are kept between large ones that are not would leave the heap full of holes.
    scales = torch.empty((rows,) if whole else (rows, columns // GROUP, 2), dtype=torch.bfloat16)

    def numbers() -> Iterator[torch.Tensor]:
        for start in range(0, rows, _ROWS):
            part = quantise(tensor[start : start + _ROWS], mode)
            scales[start : start + _ROWS] = part.scales
            yield part.packed

    return {
        name: StreamedTensor(dtype, (rows, stored), numbers),
        name + SCALES_SUFFIX: StreamedTensor(torch.bfloat16, scales.shape, lambda: (scales,)),
    }


def dequantise_directory(source: Path, out: Path) -> None:
    """Writes copies of a directory's files, not of its folders, to the directory `out`, where safetensors files hold
    plain bfloat16 in place of quantised weights, for code that knows no quantised ones. Raises as `read_mapped`
    does."""
    for file in source.iterdir():
        if file.name.endswith(WEIGHTS_SUFFIX):
            _dequantise_file(file, out / file.name)
        elif file.is_file():
            shutil.copyfile(file, out / file.name)


def quantise_directory(source: Path, mode: str, out: Path) -> None:
    """Writes a copy of a directory to `out` with all safetensors files quantised. Raises as `quantise_file` does."""
    for folder, _, names in os.walk(source, followlinks=True):
        copied = out / Path(folder).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name.endswith(WEIGHTS_SUFFIX):
                quantise_file(Path(folder, name), mode, copied / name)
            else:
                shutil.copyfile(Path(folder, name), copied / name)


def _dequantise_file(source: Path, out: Path) -> None:
    streamed = {}
    for name, tensor in read_mapped(source).items():
        make = partial(_plain, tensor)
        streamed[name] = StreamedTensor(tensor.dtype, tensor.shape, make)
    write_safetensors(out, streamed, {"format": "pt"})


def _plain(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.dequantised(tensor.dtype) if isinstance(tensor, QuantisedWeight) else tensor]


def mode_of(file: Path) -> str | None:
    """The mode in which a safetensors file is quantised, None for a plain one, and for one that cannot be read."""
    try:
        with safe_open(file, framework="pt") as held:
            mode = (held.metadata() or {}).get(_MODE_KEY)
    except (OSError, SafetensorError):
        return None
    return mode if mode in QUANTISED else None


def read_mapped(file: Path) -> dict[str, torch.Tensor]:
    """The tensors by name, of which quantised ones are `QuantisedWeight`s. Numbers stay in the mapped file: a page
    takes memory once it is read. Raises OSError, SafetensorError, and ValueError for scales that do not fit."""
    with safe_open(file, framework="pt") as held:
        metadata = held.metadata() or {}
        tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 - it is no mapping
    mode = metadata.get(_MODE_KEY)
    if mode is None:
        return tensors
    columns = json.loads(metadata.get(_COLUMNS_KEY, "{}"))
    for name in [each for each in tensors if each.endswith(PADDING)]:
        del tensors[name]
    for name, count in columns.items():
        if mode not in QUANTISED or not {name, name + SCALES_SUFFIX} <= tensors.keys():
            raise ValueError(f"{file} does not hold '{name}' as its metadata say")
        packed, scales = _aligned(tensors[name]), tensors.pop(name + SCALES_SUFFIX)
        _check(name, mode, packed, scales, count)
        tensors[name] = QuantisedWeight.of(mode, packed, scales, count, (file, name))
    return tensors


def _check(name: str, mode: str, packed: torch.Tensor, scales: torch.Tensor, columns: object) -> None:
    """Raises ValueError for tensors that the kernels would read beyond their ends."""
    if type(columns) is int and columns > 0 and packed.ndim == 2:
        filled = padded(columns)
        numbers = (torch.int8, filled) if mode == INT8 else (torch.uint8, filled // 2)
        scaled = (len(packed),) if mode == INT8 else (len(packed), filled // GROUP, 2)
        if (packed.dtype, packed.shape[1]) == numbers and (scales.dtype, scales.shape) == (torch.bfloat16, scaled):
            return
    raise ValueError(f"'{name}' is not quantised as {mode}")


def _aligned(packed: torch.Tensor) -> torch.Tensor:
    """A copy where a file that somebody else wrote is not aligned, on which the kernels would end the process."""
    return packed if packed.data_ptr() % ALIGNMENT_BYTES == 0 else packed.clone()
