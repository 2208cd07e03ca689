from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.interval_set import IntervalSet

ENDS = st.tuples(st.integers(0, 20), st.integers(0, 20))
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove", "cut"]), ENDS), max_size=12)


@given(changes=CHANGES, end=st.integers(0, 22))
def test_it_behaves_like_a_set(changes, end):
    positions, model = IntervalSet(), set()
    for what, (start, stop) in changes:
        if what == "add":
            positions.add(start, stop)
            model |= set(range(start, stop))
        elif what == "remove":
            positions.remove(start, stop)
            model -= set(range(start, stop))
        else:
            positions.cut(start)
            model -= set(range(start, 21))
    intervals = list(positions)
    assert {position for start, stop in intervals for position in range(start, stop)} == model
    assert {p for start, stop in positions.below(end) for p in range(start, stop)} == {p for p in model if p < end}
    assert all(start < stop for start, stop in intervals)
    assert all(before.end < after.start for before, after in pairwise(intervals))
