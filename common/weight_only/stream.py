"""Writes a safetensors file tensor by tensor, so that a large one is never in memory: the library takes all at once.

The format (8 bytes of header length, a JSON header, the data) is safetensors' own. It may not know what tensors mean.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from common.atomic import atomic_file

DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The format's names of the dtypes that are written."""

ALIGNMENT_BYTES = 64
"""Of every tensor in the file, as torch's kernels read them where they are mapped. The format knows no gaps: they are
tensors of their own."""

PADDING = ".padding"
"""The end of the names of those."""


@dataclass(frozen=True, slots=True)
class StreamedTensor:
    """A tensor whose rows `make` yields in order, in parts of any size, once it is its turn."""

    dtype: torch.dtype
    shape: Sequence[int]
    make: Callable[[], Iterable[torch.Tensor]]

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def write_safetensors(path: Path, tensors: Mapping[str, StreamedTensor], metadata: Mapping[str, str]) -> None:
    """Writes `path` whole or not at all; the tensors are made in their order. Raises OSError."""
    padded: dict[str, StreamedTensor] = {}
    for name, tensor in tensors.items():
        padded[name] = tensor
        if gap := -tensor.bytes % ALIGNMENT_BYTES:
            padded[name + PADDING] = StreamedTensor(torch.uint8, (gap,), _zeros(gap))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in padded.items():
        header[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + tensor.bytes],
        }
        end += tensor.bytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT_BYTES)
    with atomic_file(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in padded.values():
            for part in tensor.make():
                # A tensor without dimensions, such as GPT-NeoX's masked_bias, has no axis to view as bytes.
                file.write(part.contiguous().reshape(-1).view(torch.uint8).numpy().data if part.numel() else b"")
        if file.tell() != 8 + len(text) + end:
            raise OSError(f"{path} would not be as long as its tensors")


def _zeros(count: int) -> Callable[[], Iterable[torch.Tensor]]:
    return lambda: (torch.zeros(count, dtype=torch.uint8),)
