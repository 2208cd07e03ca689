import numpy as np
import pytest

from common.models.slot_ranges import split_ranges


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([], []),
        ([4], [(0, 1)]),
        ([4, 5, 6], [(0, 3)]),
        ([-1, 0, 5, 6, 6, 5, 9], [(0, 2), (2, 2), (4, 1), (5, 1), (6, 1)]),
    ],
)
def test_ranges_of_consecutive_slots(slots: list[int], expected: list[tuple[int, int]]) -> None:
    firsts, lengths = split_ranges(np.array(slots, dtype=np.int64))
    assert list(zip(firsts.tolist(), lengths.tolist(), strict=True)) == expected
