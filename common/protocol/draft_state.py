"""What draft state is made of: its kinds, the numbers it may travel in, and how many bytes they need. Pure arithmetic.

Knows neither sessions nor tensors; `common/codec` makes the bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

GROUP = 32
"""Numbers of one position that share a scale."""

FIRST_POSITIONS = 4
"""So many positions, which every later one attends to most, are sent before all others."""

_SCALE_BYTES = 2
_ENVELOPE_BYTES = 64  # what compression may add to a payload that it cannot shrink

BITS: Mapping[str, int] = {"float16": 16, "int8": 8, "int6": 6, "int4": 4}
"""The numbers that the codec knows. Those with fewer than 16 bits are in groups, each with a float16 scale."""

WIRE_DTYPES = ("int8", "float16")
"""Those of them that a session may ask for; the others are for experiments."""

LSA, HIDDEN, KEY_VALUES = "lsa", "hidden", "kv"

DIMENSIONS: Mapping[str, int] = {LSA: 1, HIDDEN: 1, KEY_VALUES: 3}
"""Every kind of draft state, and how many axes one position of it has: `lsa [2 * E_kv]` is the layer
self-attention's vector, `hidden [E]` the last hidden state, `kv [layers, 2, E_kv]` the keys (after their rotation)
and the values of the last layers."""


@dataclass(frozen=True, slots=True)
class StateKind:
    """One kind of draft state that a server exports; `shape` is that of one position."""

    name: str
    shape: tuple[int, ...]


def raw_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of an array of `shape`, positions first, in `dtype`, before compression."""
    count, numbers = shape[0], prod(shape[1:])
    packed = -(-numbers * BITS[dtype] // 8)
    scales = 0 if dtype == "float16" else -(-numbers // GROUP) * _SCALE_BYTES
    return count * (packed + scales)


def max_bytes(dtype: str, shape: Sequence[int]) -> int:
    """No honest payload for an array of `shape` is longer."""
    raw = raw_bytes(dtype, shape)
    return raw + raw // 128 + _ENVELOPE_BYTES
