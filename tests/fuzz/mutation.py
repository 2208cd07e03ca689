"""Random numbers, names and mutations of frames, for both peers. Knows bytes and protobuf fields, and no protocol."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

U32, U64 = (1 << 32) - 1, (1 << 64) - 1

NUMBERS = (0, 1, 2, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, U32)
LONG_NUMBERS = (*NUMBERS, 1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, U64)
FRACTIONS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, -1e-45, 3e38, -3e38, math.inf, -math.inf, math.nan)
STRINGS = (
    *("", " ", "a", "\0", "\x1b[2J\x1b]0;owned\x07", "\r\n", "\u202egnp", "é" * 40, "中" * 300, "🙂", "\ufffd"),
    *(
        "greedy",
        "coupled",
        "speculative",
        "typical",
        "auto",
        "assist",
        "eager",
        "patient",
        "lockstep",
        "int8",
        "float16",
    ),
    *(
        "../../etc/passwd",
        "/",
        "bundle.json",
        "a" * 64,
        "0" * 64,
        "%s%n",
        "{}",
        "x" * 5000,
        "stop",
        "length",
        "lsa",
        "kv",
    ),
)
_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80\x80\x80\x80\x00", b"\xff" * 12, b"\x00")


def number(rng: Random, near: int, top: int = U32) -> int:
    """Usually `near`, sometimes a number next to it, rarely any other."""
    drawn = rng.random()
    if drawn < 0.95:
        return min(top, max(0, near + (0 if drawn < 0.87 else rng.choice((-2, -1, 1, 2)))))
    return min(top, rng.choice(NUMBERS if top <= U32 else LONG_NUMBERS)) if drawn < 0.99 else rng.randrange(top + 1)


def damaged(data: bytes, rng: Random, other: bytes) -> bytes:
    """The bytes with one to three faults; `other` is spliced in by one of them."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        data = _FAULTS[rng.randrange(len(_FAULTS))](data, at, rng, other)
    return data


def _flip(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + bytes(each ^ (1 << rng.randrange(8)) for each in data[at : at + 1]) + data[at + 1 :]


def _overwrite(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]


def _insert(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]


def _varint(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + rng.choice(_VARINTS) + data[at + 1 :]


def _delete(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + data[at + rng.randrange(1, 9) :]


def _repeat(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + data[at : at + rng.randrange(1, 30)] * rng.randrange(1, 4) + data[at:]


def _truncate(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at]


def _splice(data: bytes, at: int, rng: Random, other: bytes) -> bytes:
    return data[:at] + other[rng.randrange(len(other) + 1) :]


_FAULTS: Sequence[Callable[[bytes, int, Random, bytes], bytes]] = (
    *(_flip, _overwrite, _insert, _varint, _delete, _repeat, _truncate, _splice),
)


def distorted(message: Message, rng: Random) -> Message:
    """The message with one field changed, at any depth."""
    while True:
        field = rng.choice(_fields(message, rng))
        if field.message_type is None or field.is_repeated or rng.random() < 0.1:
            break
        message = getattr(message, field.name)
    if field.is_repeated:
        _distort_list(message, field, rng)
    elif field.message_type is not None:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(field, rng))
    return message


def _distort_list(message: Message, field: FieldDescriptor, rng: Random) -> None:
    listed: Any = getattr(message, field.name)
    drawn = rng.random()
    if drawn < 0.3 and len(listed):
        del listed[rng.randrange(len(listed)) :]
    elif drawn < 0.5:
        listed.extend(list(listed)[:200])
    elif field.message_type is not None:
        part = listed.add()
        for _ in range(rng.randrange(3)):
            distorted(part, rng)
    elif drawn < 0.8 and len(listed):
        listed[rng.randrange(len(listed))] = _value(field, rng)
    else:
        listed.extend([_value(field, rng)] * rng.choice((1, 1, 2, 20, 600)))


@cache
def _fields_of(descriptor: Any) -> tuple[FieldDescriptor, ...]:
    return tuple(descriptor.fields)


def _fields(message: Message, rng: Random) -> Sequence[FieldDescriptor]:
    """Usually only the fields that are set."""
    there = message.ListFields()
    return [field for field, _ in there] if there and rng.random() < 0.8 else _fields_of(message.DESCRIPTOR)


def _value(field: FieldDescriptor, rng: Random) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_UINT32:
            return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.randrange(U32 + 1)
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return rng.choice(LONG_NUMBERS) if rng.random() < 0.7 else rng.randrange(U64 + 1)
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return rng.choice(FRACTIONS)
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(STRINGS)
        case FieldDescriptor.TYPE_BYTES:
            return rng.randbytes(rng.choice((0, 1, 20, 600)))
        case FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
    raise AssertionError(f"fields of type {field.type} are not known here")


class Mutator:
    """Makes the bytes of a frame: unchanged, with one field changed, with damaged bytes, or all random."""

    def __init__(self) -> None:
        self._other = b""

    def __call__(self, frame: Message, rng: Random) -> "FuzzedFrame":
        drawn = rng.random()
        if 0.5 < drawn < 0.75:
            distorted(frame, rng)
        data = frame.SerializeToString()
        if drawn > 0.95:
            data = rng.randbytes(rng.choice((0, 1, 2, 5, 20, 100, 1000)))
        elif drawn > 0.75:
            data = damaged(data, rng, self._other)
        self._other = data[:1000]
        return FuzzedFrame(data, mutated=drawn > 0.5)


class FuzzedFrame(NamedTuple):
    """A frame's bytes, and whether they differ from what a correct peer would send."""

    data: bytes
    mutated: bool
