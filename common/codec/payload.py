"""A state payload: an array of a given dtype and shape as compressed bytes. It may not know frames or kinds of state.

Compressed by zstd (RFC 8878) at its fastest level, as quantisation does most of the work. Magic number, checksum and
content size are left out: dtype and shape determine the size, and many payloads hold a single position.
"""

import threading
from math import prod

import numpy as np
import torch
import zstandard

from common.codec.groups import Bytes, Floats, in_order, quantise, restore
from common.protocol.draft_state import BITS, raw_bytes
from common.protocol.errors import MisuseError, PeerError

_FORMAT = zstandard.FORMAT_ZSTD1_MAGICLESS
_COMPRESSION = zstandard.ZstdCompressionParameters.from_level(
    1, format=_FORMAT, write_content_size=False, write_checksum=False
)
_MOST_WINDOW = 1 << 20  # bytes that a payload may make its decoder reserve


class _Contexts(threading.local):
    """zstd's contexts, one for each thread: creating one takes longer than a frame, and threads may not share it."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(compression_params=_COMPRESSION)
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW, format=_FORMAT)


_CONTEXTS = _Contexts()

_LARGEST_HALF = np.float32(np.finfo(np.float16).max)


def encode(tensor: torch.Tensor, dtype: str, channel_scales: torch.Tensor | None = None) -> bytes:
    """`tensor [count, ...]`, positions first, on any device, in `dtype`: float16, int8, int6 or int4.

    `channel_scales`, of one position's shape, are divided out before; the decoder must know them. Raises MisuseError
    for an unknown dtype and for numbers that are not finite.
    """
    numbers = tensor.detach().float()
    if channel_scales is not None:
        numbers = numbers / channel_scales.to(numbers)
    return compress(pack(numbers, dtype), dtype, prod(tensor.shape[1:]))


def pack(tensor: torch.Tensor, dtype: str) -> Bytes:
    """The first half of `encode`: bytes `[count, bytes of a position]`, in which a position does not depend on the
    others, so that it may be kept and sent beside any. Raises MisuseError as `encode` does."""
    _check(dtype)
    numbers = tensor.detach().float().cpu().numpy().reshape(len(tensor), prod(tensor.shape[1:]))
    if not np.isfinite(numbers).all():
        raise MisuseError("draft state that is not finite cannot be encoded")
    return _halves(numbers) if dtype == "float16" else quantise(numbers, dtype)


def compress(packed: Bytes, dtype: str, numbers: int) -> bytes:
    """The second half: a payload from positions of so many numbers each that `pack` made."""
    return _CONTEXTS.compressor.compress(packed.tobytes() if dtype == "float16" else in_order(packed, numbers))


def decode(
    payload: bytes, dtype: str, shape: tuple[int, ...], channel_scales: torch.Tensor | None = None
) -> torch.Tensor:
    """The float32 array of `shape`, on the CPU. Never decompresses to more bytes than that array needs.

    Raises PeerError for a payload that is not such an array, MisuseError for an unknown dtype.
    """
    _check(dtype)
    count, n = shape[0], prod(shape[1:])
    raw = _unfold(payload, raw_bytes(dtype, shape))
    rows = np.frombuffer(raw, np.float16).astype(np.float32) if dtype == "float16" else restore(raw, dtype, count, n)
    if not np.isfinite(rows).all():
        raise PeerError("a state payload is corrupt: it holds numbers that are not finite")
    numbers = torch.from_numpy(rows).view(shape)
    return numbers if channel_scales is None else numbers * channel_scales.to(numbers)


def _halves(numbers: Floats) -> Bytes:
    return numbers.clip(-_LARGEST_HALF, _LARGEST_HALF).astype(np.float16).view(np.uint8)


def _unfold(payload: bytes, size: int) -> bytes:
    try:
        frame = zstandard.get_frame_parameters(payload, format=_FORMAT)
        # zstd would allocate a declared size before it decompresses; our frames declare none.
        if frame.content_size != zstandard.CONTENTSIZE_UNKNOWN:
            raise PeerError("a state payload is corrupt: it declares its own size")
        raw = _CONTEXTS.decompressor.decompress(payload, max_output_size=max(1, size), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise PeerError("a state payload is corrupt: it cannot be decompressed") from error
    if len(raw) != size:
        raise PeerError(f"a state payload is corrupt: it has {len(raw)} bytes where its shape needs {size}")
    return raw


def _check(dtype: str) -> None:
    if dtype not in BITS:
        raise MisuseError(f"unknown dtype of draft state '{dtype}'; choose from: {', '.join(BITS)}")
