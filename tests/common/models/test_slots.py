import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.models.slots import OutOfSlots, SlotPool


def test_a_fresh_pool_hands_slots_out_in_order() -> None:
    pool = SlotPool(5)
    assert pool.take(2) == [0, 1]
    assert pool.take(3) == [2, 3, 4]
    assert pool.free == 0


def test_a_returned_run_comes_back_in_order() -> None:
    pool = SlotPool(6)
    pool.take(6)
    pool.give([2, 3, 4])
    assert pool.take(3) == [2, 3, 4]


def test_asking_too_much_takes_nothing() -> None:
    pool = SlotPool(3)
    pool.take(1)
    with pytest.raises(OutOfSlots, match="3 slots were asked for, but only 2 of 3 are free"):
        pool.take(3)
    assert pool.free == 2


def test_taking_none_and_giving_none_change_nothing() -> None:
    pool = SlotPool(1)
    assert pool.take(0) == []
    pool.give([])
    assert pool.free == 1


@pytest.mark.parametrize("wrong", [[0, 0], [0, 2], [0, 3], [0, -1]])
def test_a_wrong_return_is_refused_as_a_whole(wrong: list[int]) -> None:
    pool = SlotPool(3)
    pool.take(2)
    with pytest.raises(ValueError, match="slot"):
        pool.give(wrong)
    assert pool.free == 1


def test_nonsense_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="positive capacity"):
        SlotPool(0)
    with pytest.raises(ValueError, match="cannot take"):
        SlotPool(1).take(-1)


@given(st.lists(st.integers(min_value=-6, max_value=6), max_size=40))
def test_no_slot_is_ever_owned_twice(steps: list[int]) -> None:
    pool = SlotPool(12)
    owned: list[int] = []
    for step in steps:
        if step >= 0 and step <= pool.free:
            owned += pool.take(step)
        else:
            given_back, owned = owned[: abs(step)], owned[abs(step) :]
            pool.give(given_back)
        assert len(set(owned)) == len(owned)
        assert pool.free + len(owned) == 12
