"""Commands arrive as they were sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.models.segment import Segment
from server.ranks.commands import Beat, Command, Load, Move, Read, Run, Serve, Stop, decode, encode

NUMBERS = st.lists(st.integers(0, 2**40), max_size=20)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    tokens = draw(st.lists(st.integers(0, 200_000), min_size=1, max_size=9))
    branches = len(tokens) + draw(st.integers(0, 3))
    wanted = draw(st.lists(st.integers(0, len(tokens) - 1)))
    return Segment(tokens, draw(st.permutations(range(branches))), [-1] * branches, draw(NUMBERS), wanted)


def same(ours: Segment, theirs: Segment) -> bool:
    names = ("tokens", "slots", "parents", "past_slots", "wanted")
    return all(list(getattr(ours, name)) == list(getattr(theirs, name)) for name in names)


@given(st.integers(0, 9), st.lists(segments(), max_size=4))
def test_passes_arrive_whole(target: int, sent: list[Segment]) -> None:
    received = decode(encode(Run(target, sent)))
    assert isinstance(received, Run)
    assert received.target == target
    assert len(received.segments) == len(sent)
    assert all(same(ours, theirs) for ours, theirs in zip(received.segments, sent, strict=True))


@given(st.integers(0, 9), NUMBERS, NUMBERS, st.integers(1, 90))
def test_slots_arrive_whole(target: int, ours: list[int], theirs: list[int], layers: int) -> None:
    moved, read = decode(encode(Move(target, ours, theirs))), decode(encode(Read(target, layers, np.array(ours))))
    assert isinstance(moved, Move)
    assert isinstance(read, Read)
    assert (moved.target, list(moved.sources), list(moved.destinations)) == (target, ours, theirs)
    assert (read.target, read.layers, list(read.slots)) == (target, layers, ours)


@pytest.mark.parametrize(
    "command", [Load({"path": "/a/é", "taps": [1, 2], "batch_invariant": None}), Serve(), Beat(), Stop()]
)
def test_what_holds_no_slots_arrives_too(command: Command) -> None:
    assert decode(encode(command)) == command


def test_a_long_past_takes_few_numbers() -> None:
    past = [*range(50, 9000), *range(20_000, 21_000)]
    assert len(encode(Run(0, [Segment([1], [9], [-1], past, [0])]))) < 30
