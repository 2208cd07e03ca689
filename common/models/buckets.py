"""Fixed shapes: which bucket a pass is in, and how counts are rounded up so that a few buckets are enough.

A captured graph is replayed with the shapes with which it was captured, so passes of like shapes are filled up to one
shape. Integers only; it may not know K/V, layouts of attention, or how passes are captured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.models.segment import PassInput

MOST_ROWS = 1_280
"""Passes with more rows have no bucket. A pass of 1,040 rows through Llama-3.1-8B's shape took 46 ms as a graph on an
H200, and 75 launched; the more rows, the less launching matters."""

_CHEAP_ROWS = 256
"""Up to about 300 rows an H100 reads bfloat16 weights for longer than it computes with them (by its data sheet), so
that rows that fill a pass up cost little. Beyond, they cost what rows cost: passes are filled up to multiples of
`_DEAR_ROW_UNIT`."""
_DEAR_ROW_UNIT = 128

MOST_QUERIES = 96
"""Nor has a pass in which a session has more rows, usually of its prompt: it is not bound by launches, and in a call
whose segments are all as long as the longest, most of the work would be filling."""

_ROW_UNIT = 8
"""Fewer rows than this take a GPU as long: its tensor cores multiply tiles of at least 8."""


class NoBucketError(Exception):
    """The pass, or its layout of attention, has no fixed shape."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Counts that a pass is filled up to."""

    rows: int
    """Rows of the pass, and rows whose logits are wanted."""
    segments: int
    queries: int
    """Rows of each segment."""


def bucket_of(segments: Sequence[PassInput]) -> Bucket:
    """The smallest bucket that holds the pass. Raises `NoBucketError`."""
    lengths = [len(segment.tokens) for segment in segments]
    rows = _rounded_rows(sum(lengths))
    if rows > MOST_ROWS or max(lengths) > MOST_QUERIES:
        raise NoBucketError
    if sum(len(segment.wanted) for segment in segments) > rows:
        raise NoBucketError
    return Bucket(rows, rounded_up(len(segments)), rounded_up(max(lengths), _ROW_UNIT))


def _rounded_rows(count: int) -> int:
    if count <= _CHEAP_ROWS:
        return rounded_up(count, _ROW_UNIT)
    return -(-count // _DEAR_ROW_UNIT) * _DEAR_ROW_UNIT


def rounded_up(count: int, unit: int = 1) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, ... units: whole units, and at most half as many again. 0 stays 0."""
    units = -(-count // unit)
    power = 1 << max(units - 1, 0).bit_length()
    three_quarters = power * 3 // 4
    return unit * (three_quarters if power >= 4 and units <= three_quarters else min(power, units and power))
