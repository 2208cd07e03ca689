"""Slots of one session: none is lost, none is given twice, and repeats are noticed."""

import numpy as np
import pytest

from common.models.slots import SlotPool
from server.passes.sequence import HeldSequence


def test_slots_are_kept_in_order_and_given_back() -> None:
    pool = SlotPool(1000)
    sequence = HeldSequence(pool)
    sequence.keep(pool.take(70), range(70))
    sequence.keep(pool.take(400), range(70, 470))
    assert np.array_equal(sequence.slots, np.arange(470))
    sequence.cut(100)
    assert (len(sequence), pool.free) == (100, 900)
    sequence.cut(0)
    assert pool.free == 1000


def test_more_than_is_held_cannot_be_cut_to() -> None:
    with pytest.raises(ValueError, match="should be held"):
        HeldSequence(SlotPool(4)).cut(1)


def test_slots_seen_by_a_running_pass_do_not_change_under_it() -> None:
    pool = SlotPool(200)
    sequence = HeldSequence(pool)
    sequence.keep(pool.take(3), [1, 2, 3])
    seen = sequence.slots
    sequence.cut(1)
    assert seen.tolist() == [0, 1, 2]


def test_only_the_same_tokens_at_the_same_place_are_repeats() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(pool)
    assert sequence.count_repeats([5, 6, 7]) == 0
    sequence.keep(pool.take(3), [5, 6, 7])
    sequence.cut(1)
    assert sequence.count_repeats([6, 8]) == 1
    assert sequence.count_repeats([8, 7]) == 0
    sequence.keep(pool.take(2), [6, 8])
    sequence.cut(1)
    assert sequence.count_repeats([6, 7]) == 1


def test_what_was_computed_counts_even_where_its_slot_was_lost() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(pool)
    sequence.keep(pool.take(1), [5, 6, 7])
    assert sequence.count_repeats([6, 7, 8]) == 2


def test_what_was_released_on_purpose_is_no_repeat() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(pool)
    sequence.keep(pool.take(2), [5, 6])
    sequence.release()
    assert (len(sequence), pool.free) == (0, 100)
    assert sequence.count_repeats([5, 6]) == 0


def test_it_counts_how_often_slots_were_given_back() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(pool)
    sequence.keep(pool.take(3), [5, 6, 7])
    counts = []
    for length in (3, 2, 2, 0):
        sequence.cut(length)
        counts.append(sequence.cuts)
    assert counts == [0, 1, 1, 2]
