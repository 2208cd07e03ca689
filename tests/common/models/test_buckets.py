"""Buckets hold their passes, and are few."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.models.buckets import MOST_QUERIES, MOST_ROWS, NoBucketError, bucket_of, rounded_up
from common.models.segment import Segment


def chain(length: int, wanted: int = 1) -> Segment:
    return Segment([0] * length, range(length), range(-1, length - 1), wanted=[0] * wanted)


@given(count=st.integers(1, 10**6), unit=st.integers(1, 64))
def test_counts_are_rounded_up_by_half_at_most_beyond_whole_units(count: int, unit: int) -> None:
    found = rounded_up(count, unit)
    assert found % unit == 0
    whole_units = -(-count // unit) * unit
    assert whole_units <= found <= 1.5 * whole_units
    assert rounded_up(found, unit) == found


def test_few_counts_are_enough() -> None:
    assert [rounded_up(count) for count in (0, 1, 2, 3, 4, 5, 7, 9, 13)] == [0, 1, 2, 3, 4, 6, 8, 12, 16]
    assert len({rounded_up(count) for count in range(1, 1025)}) == 20


@given(
    lengths=st.lists(st.integers(1, MOST_QUERIES), min_size=1, max_size=12).filter(
        lambda lengths: sum(lengths) <= MOST_ROWS
    )
)
def test_a_bucket_holds_its_pass(lengths: list[int]) -> None:
    bucket = bucket_of([chain(length) for length in lengths])
    assert sum(lengths) <= bucket.rows <= MOST_ROWS
    assert bucket.segments >= len(lengths)
    assert bucket.queries >= max(lengths)


def test_from_512_rows_on_a_pass_is_filled_up_by_a_quarter_at_most() -> None:
    for rows in range(512, MOST_ROWS + 1, 7):
        last = rows % MOST_QUERIES or MOST_QUERIES
        found = bucket_of([*[chain(MOST_QUERIES)] * ((rows - last) // MOST_QUERIES), chain(last)]).rows
        assert rows <= found <= 1.25 * rows


@pytest.mark.parametrize(
    "segments",
    [[chain(MOST_QUERIES + 1)], [chain(MOST_QUERIES)] * (MOST_ROWS // MOST_QUERIES + 1), [chain(2, wanted=9)]],
    ids=["a prompt", "many rows", "more wanted than rows"],
)
def test_passes_without_a_bucket(segments: list[Segment]) -> None:
    with pytest.raises(NoBucketError):
        bucket_of(segments)
