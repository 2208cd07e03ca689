"""What a safetensors file takes in memory when a client loads it in some weights mode, from its header alone.

No torch, and no more than headers, so that a doctor can ask about a file that is far away.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.weight_only.modes import AS_IS, SCALES_SUFFIX, is_quantisable, matrix_bytes

LENGTH_BYTES = 8
"""At the beginning of a file, which say how long its header is."""

_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_FLOATING = ("F64", "F32", "F16", "BF16")
_STORED_AS_LOADED = (SCALES_SUFFIX, ".padding")
_HEAD, _EMBEDDING = "lm_head.weight", "embed_tokens.weight"
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,9})\.")
_MOST_NUMBERS = 1 << 48  # of a tensor


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """`dtype` by the format's own name."""

    dtype: str
    shape: Sequence[int]

    @property
    def is_floating(self) -> bool:
        return self.dtype in _FLOATING

    def growth_bytes(self, width: int) -> int:
        """What it takes beyond its bytes in the file once each floating-point number takes `width`; less than 0 where
        it shrinks."""
        return math.prod(self.shape) * (width - _WIDTHS[self.dtype]) if self.is_floating else 0


def number_bytes(dtype: str) -> int:
    """Of a number in one of the dtypes that passes run in; of float32 for any other name."""
    return {"float64": 8, "bfloat16": 2, "float16": 2}.get(dtype, 4)


def header_length(begin: bytes) -> int:
    """From the first LENGTH_BYTES of a file."""
    return int.from_bytes(begin[:LENGTH_BYTES], "little")


def read_header(header: bytes) -> dict[str, StoredTensor]:
    """The tensors that a file's header lists. Raises ValueError for what is none."""
    try:
        listed = json.loads(header)
        return {
            str(name): StoredTensor(str(each["dtype"]), _shape(each["shape"]))
            for name, each in listed.items()
            if name != "__metadata__"
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("this is no header of a safetensors file") from error


def _shape(sizes: Sequence[object]) -> tuple[int, ...]:
    """Raises ValueError for what no tensor can have."""
    shape = tuple(size for size in sizes if type(size) is int and 0 <= size <= _MOST_NUMBERS)
    if len(shape) < len(sizes) or math.prod(shape) > _MOST_NUMBERS:
        raise ValueError
    return shape


def read_file_header(file: Path) -> dict[str, StoredTensor]:
    """The tensors that a file's header lists. Raises OSError, and ValueError for what is no safetensors file."""
    with file.open("rb") as stream:
        length = header_length(stream.read(LENGTH_BYTES))
        if length > file.stat().st_size:
            raise ValueError("this is no safetensors file")
        return read_header(stream.read(length))


def last_layers(tensors: Mapping[str, StoredTensor], layers: int) -> dict[str, StoredTensor]:
    """Without layers before the last `layers`."""
    numbers = {name: int(found[1]) for name in tensors if (found := _LAYER.search(name))}
    first = max(numbers.values(), default=-1) + 1 - layers
    return {name: each for name, each in tensors.items() if numbers.get(name, first) >= first}


def memory_bytes(tensors: Mapping[str, StoredTensor], weights: str, width: int) -> int:
    """Of tensors that are stored as they are or quantised already, loaded in the mode `weights`; a number that is not
    quantised takes `width` bytes.

    A quantised embedding counts only where it is the head too: rows of it take memory as their tokens occur.
    """
    is_mapped = weights != AS_IS
    total = 0
    for name, each in tensors.items():
        numbers = math.prod(each.shape)
        if is_mapped and name.endswith(_EMBEDDING) and any(other.endswith(_HEAD) for other in tensors):
            continue
        if is_mapped and is_quantisable(name, each.shape, each.is_floating):
            total += matrix_bytes(weights, each.shape[0], each.shape[1])
        elif each.is_floating and not name.endswith(_STORED_AS_LOADED):
            total += numbers * width
        else:
            total += numbers * _WIDTHS.get(each.dtype, width)
    return total
