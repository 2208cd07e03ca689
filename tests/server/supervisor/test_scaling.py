"""When a fleet gets one replica more or one less."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.supervisor.scaling import DOWN_AFTER_S, UP_AFTER_S, Bounds, Load, Scaling

BOUNDS = Bounds(1, 4, slots=10)
IDLE, BUSY = Load(), Load(running=16)
UNTOLD = Load(running=20, waiting=3, waiting_of_unknown_age=3)


def waiting(seconds: float) -> Load:
    return Load(running=20, waiting=3, longest_wait_s=seconds)


def after(loads: list[tuple[float, Load]], replicas: int, bounds: Bounds = BOUNDS) -> list[int]:
    """The replicas that are wanted after each reading; they come and go at once."""
    scaling, wanted = Scaling(), []
    for now, load in loads:
        scaling, replicas = scaling.after(load, bounds, replicas, now)
        wanted.append(replicas)
    return wanted


def every_two_seconds(load_at: Callable[[float], Load], seconds: float) -> list[tuple[float, Load]]:
    return [(2.0 * index, load_at(2.0 * index)) for index in range(int(seconds / 2) + 1)]


@pytest.mark.parametrize("load_at", [waiting, lambda now: UNTOLD], ids=["told", "untold"])
def test_a_replica_is_added_once_answers_have_waited_for_long_and_the_next_one_as_long_after(load_at) -> None:
    wanted = after(every_two_seconds(load_at, 2 * UP_AFTER_S + 2), 2)
    assert wanted == [2] * 5 + [3] * 6 + [4]


def test_answers_that_wait_one_after_another_for_a_moment_each_add_nothing_and_keep_nothing() -> None:
    moments = every_two_seconds(lambda now: Load(running=2, waiting=3, longest_wait_s=1.0), DOWN_AFTER_S)
    assert after(moments, 3) == [3] * (len(moments) - 1) + [2]


def test_clients_that_are_refused_again_and_again_wait() -> None:
    refusals = [(2.0 * index, Load(20, refused=index // 2)) for index in range(9)]
    assert after(refusals, 2)[-1] == 3
    once = [(2.0 * index, Load(20, refused=int(index > 0))) for index in range(9)]
    assert after(once, 2)[-1] == 2


def test_a_moment_without_waiting_begins_anew_where_no_replica_says_for_how_long() -> None:
    loads = [(0.0, UNTOLD), (8.0, UNTOLD), (9.0, BUSY), (10.0, UNTOLD), (18.0, UNTOLD), (19.0, BUSY), (20.0, UNTOLD)]
    assert after(loads, 3) == [3] * 7


def test_while_an_answer_waits_for_long_no_replica_is_superfluous() -> None:
    stuck = every_two_seconds(lambda now: Load(running=1, waiting=1, longest_wait_s=now), 2 * DOWN_AFTER_S)
    assert after(stuck, 4) == [4] * len(stuck)


def test_a_replica_is_removed_once_it_has_been_superfluous_for_long() -> None:
    assert after([(0.0, IDLE), (DOWN_AFTER_S - 1, IDLE), (DOWN_AFTER_S, IDLE)], 3) == [3, 3, 2]
    assert after([(0.0, BUSY), (DOWN_AFTER_S, BUSY), (2 * DOWN_AFTER_S, BUSY)], 3) == [3, 3, 3]
    assert after([(0.0, IDLE), (200.0, BUSY), (DOWN_AFTER_S, IDLE)], 3) == [3, 3, 3]


def test_idleness_of_more_replicas_is_not_that_of_those_that_are_left_after_a_failure() -> None:
    scaling, _ = Scaling().after(IDLE, BOUNDS, 3, 0.0)
    scaling, wanted = scaling.after(IDLE, BOUNDS, 2, DOWN_AFTER_S)
    assert wanted == 2
    assert scaling.after(IDLE, BOUNDS, 2, 2 * DOWN_AFTER_S)[1] == 1


@pytest.mark.parametrize(("most", "wanted"), [(4, 3), (2, 2), (1, 1)])
def test_the_least_are_made_up_for_at_once_as_far_as_there_is_room(most: int, wanted: int) -> None:
    assert after([(0.0, IDLE)], 1, Bounds(3, most, slots=10)) == [wanted]


@pytest.mark.parametrize(("load", "replicas"), [(waiting(UP_AFTER_S), 4), (UNTOLD, 4), (IDLE, 1)])
def test_bounds_hold(load: Load, replicas: int) -> None:
    assert set(after([(1000.0 * index, load) for index in range(5)], replicas)) == {replicas}


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 100), st.integers(1, 12))
def test_under_a_constant_load_the_number_of_replicas_does_not_swing(start: int, asked: int, slots: int) -> None:
    bounds = Bounds(1, 8, slots)
    scaling, replicas, wanted = Scaling(), start, [start]
    for index in range(700):
        over = max(0, asked - slots * replicas)
        load = Load(asked - over, over, longest_wait_s=5.0 * index if over else 0.0)
        scaling, replicas = scaling.after(load, bounds, replicas, 5.0 * index)
        wanted.append(replicas)
    assert wanted in (sorted(wanted), sorted(wanted, reverse=True))
    assert all(1 <= each <= 8 for each in wanted)
