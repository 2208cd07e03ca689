"""Segments: what their tokens see, by slots."""

import numpy as np
import pytest

from common.models.segment import Segment, path_slots


def test_a_token_sees_the_past_its_ancestors_and_itself():
    """Behind a past of two: entry 0, computed before, with children 1 and 2; 3 below 1; 4 from the past."""
    segment = Segment(
        tokens=[7, 8, 9, 7], slots=[20, 31, 42, 53, 64], parents=[-1, 0, 0, 1, -1], past_slots=[5, 3], wanted=[2]
    )
    assert [path_slots(segment, token).tolist() for token in range(4)] == [
        [5, 3, 20, 31],
        [5, 3, 20, 42],
        [5, 3, 20, 31, 53],
        [5, 3, 64],
    ]


def test_a_chain_without_a_past_in_arrays():
    segment = Segment(tokens=np.array([7, 8]), slots=np.array([4, 2]), parents=range(-1, 1))
    assert path_slots(segment, 0).tolist() == [4]
    assert path_slots(segment, 1).tolist() == [4, 2]


def test_lengths_that_contradict_each_other_are_refused():
    for tokens, slots, parents in (([], [], []), ([7], [1, 2], [-1]), ([7, 8], [1], [-1])):
        with pytest.raises(ValueError, match=r"segment|slots"):
            Segment(tokens, slots, parents)
