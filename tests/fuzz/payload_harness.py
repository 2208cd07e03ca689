"""The codec: draft state whose bytes do not match its dtype and shape, and decompression bombs."""

from random import Random

import torch
import zstandard

from common.codec import decode, encode
from common.protocol.draft_state import BITS, max_bytes
from common.protocol.errors import PeerError
from tests.fuzz.harness import FaultError, check_sentence
from tests.fuzz.mutation import FuzzedFrame, damaged

_SHAPES = ((1, 16), (3, 33), (2, 2, 2, 40), (5, 1), (1, 1 << 16))
_KINDS = tuple((dtype, shape) for dtype in BITS for shape in _SHAPES)
_PAYLOADS = tuple(
    encode(torch.linspace(-3, 3, torch.Size(shape).numel()).view(shape), dtype) for dtype, shape in _KINDS
)


def _bomb(size: int, *, declares_size: bool) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        1, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=declares_size, write_checksum=False
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(size))


_BOMBS = tuple(_bomb(1 << 26, declares_size=declares_size) for declares_size in (False, True))


class PayloadHarness:
    """A frame's first byte selects the dtype and the shape that it claims."""

    def __init__(self, rng: Random):
        self._other = b""

    def frame(self, rng: Random) -> FuzzedFrame:
        kind, drawn = rng.randrange(len(_KINDS)), rng.random()
        payload = _PAYLOADS[kind]
        if drawn < 0.7:
            payload = damaged(payload, rng, self._other)
        elif drawn < 0.8:
            payload = rng.choice(_PAYLOADS)
        elif drawn < 0.95:
            payload = rng.randbytes(rng.choice((0, 1, 2, 10, 100, 1000)))
        elif drawn < 0.96:
            payload = rng.choice(_BOMBS)
        self._other = payload[:200]
        return FuzzedFrame(bytes((kind,)) + payload, mutated=payload is not _PAYLOADS[kind])

    def take(self, data: bytes) -> str:
        dtype, shape = _KINDS[data[0]]
        # Longer ones are refused before the codec.
        payload = data[1 : 1 + max_bytes(dtype, shape)]
        try:
            numbers = decode(payload, dtype, shape)
        except PeerError as error:
            check_sentence(error)
            return "refused"
        if tuple(numbers.shape) != shape or not numbers.isfinite().all():
            raise FaultError(f"a payload became {tuple(numbers.shape)} numbers, and not {shape} finite ones")
        return "decoded"

    def end(self) -> None:
        """Nothing is held between frames."""
