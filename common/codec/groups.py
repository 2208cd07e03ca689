"""Block-wise quantisation: groups of numbers as symmetric integers of a few bits that share a scale. It may not know
compression or frames.

As in QSGD (Alistarh et al. 2017, arXiv 1610.02132) and its successors, a group's largest magnitude becomes the largest
integer, so that an outlier costs only its own group precision. Groups never cross positions.

It uses numpy, because frames are so small that torch's threads cost more than the work.
"""

import numpy as np
from numpy.typing import NDArray

from common.protocol.draft_state import BITS, GROUP
from common.protocol.errors import PeerError

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Int8Array = NDArray[np.int8]

_LARGEST_SCALE = np.float32(np.finfo(np.float16).max)


def quantise(numbers: Floats, dtype: str) -> Bytes:
    """Finite `numbers [count, n]` as bytes `[count, bytes of a position]`: its scales, then its integers, packed."""
    count, n = numbers.shape
    limit = (1 << (BITS[dtype] - 1)) - 1
    padded = np.pad(numbers, ((0, 0), (0, -n % GROUP))) if n % GROUP else numbers
    groups = padded.reshape(count, -(-n // GROUP), GROUP)
    scales = np.minimum(np.abs(groups).max(-1) / limit, _LARGEST_SCALE).astype(np.float16)
    # A group whose scale vanishes in float16 is all zeros on the other side, whatever its integers are.
    divisors = np.where(scales > 0, scales.astype(np.float32), np.float32(np.inf))
    scaled = groups / divisors[..., None]
    integers = scaled.round(out=scaled).clip(-limit, limit, out=scaled).astype(np.int8)
    packed = _pack(integers.reshape(count, groups.shape[1] * GROUP)[:, :n], BITS[dtype])
    return np.concatenate([scales.view(np.uint8), packed.view(np.uint8)], axis=1)


def in_order(rows: Bytes, n: int) -> bytes:
    """Positions of `n` numbers each that `quantise` made, as they are sent: all scales, then all integers."""
    scales = 2 * -(-n // GROUP)
    return b"".join((rows[:, :scales].tobytes(), rows[:, scales:].tobytes()))


def restore(raw: bytes, dtype: str, count: int, n: int) -> Floats:
    """The numbers `[count, n]` from what `in_order` returned. Raises PeerError for scales that are negative or not
    finite."""
    groups = -(-n // GROUP)
    scales = np.frombuffer(raw, np.float16, count * groups).astype(np.float32)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise PeerError("a state payload is corrupt: its scales are impossible")
    packed = np.frombuffer(raw, np.uint8, offset=2 * len(scales)).reshape(count, -(-n * BITS[dtype] // 8))
    integers = _unpack(packed, BITS[dtype], n).astype(np.float32)
    return integers * np.repeat(scales.reshape(count, groups), GROUP, axis=1)[:, :n]


def _pack(integers: Int8Array, bits: int) -> NDArray[np.int8] | Bytes:
    """Each row in whole bytes, `bits` of each number kept in two's complement."""
    if bits == 8:
        return integers
    every = np.unpackbits(integers.view(np.uint8)[..., None], axis=-1)[..., 8 - bits :]
    return np.packbits(every.reshape(len(integers), bits * integers.shape[1]), axis=-1)


def _unpack(packed: Bytes, bits: int, n: int) -> Int8Array:
    if bits == 8:
        return packed.view(np.int8)
    every = np.unpackbits(packed, axis=-1, count=n * bits).reshape(len(packed), n, bits)
    raised = np.packbits(every, axis=-1)[..., 0].view(np.int8)  # packbits fills up on the right
    return raised >> (8 - bits)
