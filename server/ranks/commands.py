"""What rank 0 tells the others, and how it travels: as flat integers, because that is what a process group sends fast.

It may not know processes, tensors or who executes a command.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.integers import IntArray, Integers
from common.models.segment import PassInput, Segment
from common.models.slot_ranges import split_ranges


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target with these arguments of `load_target`. Targets are numbered in the order of these commands."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of a target."""

    target: int
    segments: Sequence[PassInput]


@dataclass(frozen=True, slots=True)
class Move:
    """Copy what slots of a target's pool hold."""

    target: int
    sources: Integers
    destinations: Integers


@dataclass(frozen=True, slots=True)
class Read:
    """Give rank 0 this rank's heads of the keys and values of the last `layers` layers."""

    target: int
    layers: int
    slots: Integers


@dataclass(frozen=True, slots=True)
class Serve:
    """Everything is loaded: from now on a silence means that a rank is gone."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Say that you are there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End."""


Command = Load | Run | Move | Read | Serve | Beat | Stop
_KINDS: tuple[type, ...] = (Load, Run, Move, Read, Serve, Beat, Stop)
_ARRAYS_OF_A_SEGMENT = 6


def encode(command: Command) -> IntArray:
    """The kind, the number of arrays, their lengths, the arrays."""
    arrays = [_array(each) for each in _arrays_of(command)]
    header = [_KINDS.index(type(command)), len(arrays), *map(len, arrays)]
    return np.concatenate([_array(header), *arrays])


def decode(numbers: IntArray) -> Command:
    """What `encode` made the numbers of, its sequences as arrays."""
    kind, count = _KINDS[int(numbers[0])], int(numbers[1])
    ends = np.cumsum(numbers[2 : 2 + count])
    arrays = np.split(numbers[2 + count :], ends[:-1]) if count else []
    if kind is Load:
        return Load(json.loads(arrays[0].astype(np.uint8).tobytes()))
    if kind is Run:
        parts = range(1, count, _ARRAYS_OF_A_SEGMENT)
        return Run(int(arrays[0][0]), [_segment(*arrays[part : part + _ARRAYS_OF_A_SEGMENT]) for part in parts])
    if kind is Move:
        return Move(int(arrays[0][0]), arrays[1], arrays[2])
    if kind is Read:
        return Read(int(arrays[0][0]), int(arrays[0][1]), arrays[1])
    command: Command = kind()
    return command


def _arrays_of(command: Command) -> Iterator[Integers]:
    match command:
        case Load(arguments):
            yield np.frombuffer(json.dumps(arguments).encode(), dtype=np.uint8)
        case Run(target, segments):
            yield [target]
            for segment in segments:
                # The past of a long conversation is thousands of slots in a few ranges.
                past = _array(segment.past_slots)
                firsts, lengths = split_ranges(past)
                yield from (segment.tokens, segment.slots, segment.parents, past[firsts], lengths, segment.wanted)
        case Move(target, sources, destinations):
            yield from ([target], sources, destinations)
        case Read(target, layers, slots):
            yield from ([target, layers], slots)


def _segment(
    tokens: IntArray, slots: IntArray, parents: IntArray, firsts: IntArray, lengths: IntArray, wanted: IntArray
) -> Segment:
    ranges = [np.arange(first, first + length) for first, length in zip(firsts, lengths, strict=True)]
    past = np.concatenate(ranges) if ranges else np.empty(0, dtype=np.int64)
    return Segment(tokens, slots, parents, past, wanted)


def _array(integers: Integers) -> IntArray:
    return np.asarray(integers, dtype=np.int64)
