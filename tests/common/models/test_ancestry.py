from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.models.ancestry import trace


@st.composite
def parent_lists(draw: st.DrawFn) -> list[int]:
    size = draw(st.integers(min_value=1, max_value=40))
    return [draw(st.integers(min_value=-1, max_value=index - 1)) for index in range(size)]


@given(parent_lists() | st.integers(1, 40).map(lambda size: range(-1, size - 1)), st.data())
def test_each_branch_sees_its_line_and_nothing_else(parents: Sequence[int], data: st.DataObject) -> None:
    ancestry, count = trace(parents), data.draw(st.integers(min_value=1, max_value=len(parents)))
    expected = np.zeros((len(parents), len(parents)), dtype=bool)
    for branch in range(len(parents)):
        ancestor = branch
        while ancestor >= 0:
            expected[branch, ancestor] = True
            ancestor = parents[ancestor]
    np.testing.assert_array_equal(ancestry.seen(count), expected[-count:])
    assert list(ancestry.depths) == (expected.sum(axis=1) - 1).tolist()


def test_a_chain_is_a_triangle() -> None:
    np.testing.assert_array_equal(trace(range(-1, 1999)).seen(2000), np.tri(2000, dtype=bool))


@pytest.mark.parametrize("parents", [[0], [-2], [-1, 1], [-1, 5]])
def test_a_parent_must_come_first(parents: list[int]) -> None:
    with pytest.raises(ValueError, match="does not precede it"):
        trace(np.array(parents))
