"""The slots of one session: none is lost, and none is given out twice."""

import numpy as np
import pytest

from common.models.slots import SlotPool
from server.passes.prefix_tree import PrefixTree
from server.passes.sequence import HeldSequence


def test_slots_are_kept_in_order_and_given_back() -> None:
    pool = SlotPool(1000)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(70))
    sequence.keep(pool.take(400))
    assert np.array_equal(sequence.slots, np.arange(470))
    sequence.cut(100)
    assert (len(sequence), pool.free) == (100, 900)
    sequence.cut(0)
    assert pool.free == 1000


def test_more_than_is_held_cannot_be_cut_to() -> None:
    with pytest.raises(ValueError, match="should be held"):
        HeldSequence(PrefixTree(SlotPool(4)), "").cut(1)


def test_slots_seen_by_a_running_pass_do_not_change_under_it() -> None:
    pool = SlotPool(200)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(3))
    seen = sequence.slots
    sequence.cut(1)
    assert seen.tolist() == [0, 1, 2]


def test_it_counts_how_often_slots_were_given_back() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(3))
    counts = []
    for length in (3, 2, 2, 0):
        sequence.cut(length)
        counts.append(sequence.cuts)
    assert counts == [0, 1, 1, 2]
