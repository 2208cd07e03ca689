"""Slots are neither lost nor given out twice, and those of a sequence follow one another as far as they can."""

import random

import numpy as np
import pytest

from common.models.slot_ranges import split_ranges
from common.models.slots import OutOfSlots, SlotPool


def test_a_fresh_pool_hands_slots_out_in_order() -> None:
    pool = SlotPool(5)
    assert pool.take(2) == [0, 1]
    assert pool.take(3) == [2, 3, 4]
    assert pool.free == 0


def test_the_lowest_free_slots_are_taken_first() -> None:
    pool = SlotPool(8)
    pool.take(7)
    pool.give([4, 2])
    pool.give([3])
    assert pool.take(4) == [2, 3, 4, 7]


def test_asking_for_too_many_takes_nothing() -> None:
    pool = SlotPool(3)
    pool.take(1)
    for ask in (pool.take, lambda count: pool.extend(None, count), lambda count: pool.extend(0, count)):
        with pytest.raises(OutOfSlots, match="3 slots were asked for, but only 2 of 3 are free"):
            ask(3)
    assert pool.free == 2


def test_no_slots_are_a_valid_request() -> None:
    pool = SlotPool(1)
    assert pool.take(0) == pool.extend(None, 0) == pool.extend(3, 0) == []
    pool.give([])
    assert pool.free == 1


@pytest.mark.parametrize("wrong", [[0, 0], [2], [-1], [3], [0, 1, 2]])
def test_only_taken_slots_come_back_and_only_once(wrong: list[int]) -> None:
    pool = SlotPool(3)
    pool.take(2)
    with pytest.raises(ValueError, match="slot"):
        pool.give(wrong)
    assert pool.free == 1


def test_misuse_is_told() -> None:
    with pytest.raises(ValueError, match="positive capacity"):
        SlotPool(0)
    with pytest.raises(ValueError, match="cannot take -1"):
        SlotPool(1).take(-1)
    with pytest.raises(ValueError, match="cannot take -1"):
        SlotPool(1).extend(None, -1)


def test_a_sequence_grows_behind_its_last_slot() -> None:
    pool = SlotPool(1000)
    first = pool.extend(None, 10)
    second = pool.extend(None, 10)
    first += pool.extend(first[-1], 300)
    second += pool.extend(second[-1], 200)
    assert first == list(range(310))
    assert second == list(range(second[0], second[0] + 210))


def test_a_sequence_that_cannot_grow_goes_on_where_there_is_most_room() -> None:
    pool = SlotPool(100)
    pool.take(100)
    pool.give([*range(10, 14), *range(40, 60), 80])
    assert pool.extend(9, 8) == [10, 11, 12, 13, 48, 49, 50, 51]
    assert pool.extend(51, 10) == [*range(52, 60), 43, 44]
    assert pool.extend(None, 7) == [40, 41, 42, 45, 46, 47, 80]


@pytest.mark.parametrize("seed", range(20))
def test_no_slot_is_lost_or_given_out_twice(seed: int) -> None:
    randomly, pool = random.Random(seed), SlotPool(60)
    owned: list[int] = []
    for _ in range(200):
        count = randomly.randint(0, pool.free)
        last = randomly.choice([None, *owned])
        owned += pool.take(count) if randomly.random() < 0.5 else pool.extend(last, count)
        assert len(set(owned)) == len(owned) == 60 - pool.free
        assert all(0 <= slot < 60 for slot in owned)
        randomly.shuffle(owned)
        kept = randomly.randint(0, len(owned))
        pool.give(owned[kept:])
        del owned[kept:]
    pool.give(owned)
    assert pool.take(60) == list(range(60))


def test_sessions_that_come_grow_and_go_keep_long_ranges() -> None:
    """Prompts of 20 to 1,000 tokens and answers of up to 400 in steps of five, in a pool that is 70% full."""
    randomly, pool = random.Random(1), SlotPool(40_000)
    sessions: list[list[int]] = []
    lengths: list[int] = []
    for _ in range(20_000):
        if pool.free > 12_000:
            sessions.append(pool.extend(None, randomly.randint(20, 1000)))
        session = randomly.choice(sessions)
        session += pool.extend(session[-1], 5)
        if randomly.random() < 5 / 200:
            sessions.remove(session)
            pool.give(session)
            lengths += split_ranges(np.array(session))[1].tolist()
    assert np.average(lengths, weights=lengths) > 300
