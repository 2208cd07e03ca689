"""common.pacing: stated costs are taken, overruns are reported, and one thing is computed at a time."""

import asyncio
import threading
import time

import pytest

from common.pacing import WAKE_S, PacedThread, Timed
from tests.hand_set_time import HandSetTime


async def test_a_stated_cost_is_used_up(hand_set_time: HandSetTime) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.5, lambda: hand_set_time.sleep(0.125))
    assert hand_set_time.now == 100.5
    assert timed == Timed(0.125, overran=False)
    worker.close()


async def test_what_takes_longer_than_stated_overruns(hand_set_time: HandSetTime) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.25, lambda: hand_set_time.sleep(0.25), before=lambda: hand_set_time.sleep(0.5))
    assert hand_set_time.now == 100.75
    assert timed == Timed(0.75, overran=True)
    worker.close()


async def test_nothing_overruns_where_no_cost_is_stated(hand_set_time: HandSetTime) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.0, lambda: hand_set_time.sleep(0.5))
    assert timed == Timed(0.5, overran=False)
    worker.close()


async def test_what_a_caller_does_between_two_computations_is_part_of_the_second_ones_cost(
    hand_set_time: HandSetTime,
) -> None:
    worker = PacedThread("test")
    for _ in range(3):
        hand_set_time.sleep(0.125)
        _, timed = await worker.run(0.5, lambda: hand_set_time.sleep(0.25))
        assert timed == Timed(0.25, overran=False)
    assert hand_set_time.now == 100.0 + 3 * 0.5
    hand_set_time.sleep(0.375)
    _, timed = await worker.run(0.5, lambda: hand_set_time.sleep(0.25))
    assert timed == Timed(0.25, overran=True), "with what came before"
    worker.close()


async def test_a_computation_that_overran_delays_no_others_that_are_quick(hand_set_time: HandSetTime) -> None:
    worker = PacedThread("test")
    overran = []
    for taken in (0.75, 0.125, 0.125):
        _, timed = await worker.run(0.5, lambda taken=taken: hand_set_time.sleep(taken))  # type: ignore[misc]
        overran.append(timed.overran)
    assert overran == [True, False, False]
    assert hand_set_time.now - 100.0 == pytest.approx(3 * 0.5 + WAKE_S, abs=1e-9)
    worker.close()


@pytest.mark.parametrize(("late_s", "second_ends_s"), [(0.0, 1.0), (WAKE_S, 1.0 + WAKE_S), (0.125, 1.0 + WAKE_S)])
async def test_a_thread_that_wakes_late_delays_the_next_computation_by_no_more_than_on_the_virtual_clock(
    hand_set_time: HandSetTime, late_s: float, second_ends_s: float
) -> None:
    worker = PacedThread("test")
    hand_set_time.wakes_late_s = late_s
    await worker.run(0.5, lambda: None)
    hand_set_time.wakes_late_s = 0.0
    assert hand_set_time.now == 100.5 + late_s
    _, timed = await worker.run(0.5, lambda: None)
    assert hand_set_time.now - 100.0 == pytest.approx(second_ends_s, abs=1e-9)
    assert not timed.overran
    worker.close()


async def test_of_a_long_stall_no_more_than_one_cost_is_made_up_for(hand_set_time: HandSetTime) -> None:
    worker, ends, overran = PacedThread("test"), [], []
    for taken in (7.0, 0.125, 0.125, 0.125):
        _, timed = await worker.run(0.5, lambda taken=taken: hand_set_time.sleep(taken))  # type: ignore[misc]
        ends.append(hand_set_time.now - 100.0)
        overran.append(timed.overran)
    assert ends == pytest.approx([7.0, 7.125, 7.5 + WAKE_S, 8.0 + WAKE_S], abs=1e-9)
    assert overran == [True, False, False, False], "each counts for itself"
    worker.close()


async def test_a_wait_for_something_to_compute_is_not(hand_set_time: HandSetTime) -> None:
    worker = PacedThread("test")
    await worker.run(0.5, lambda: None)
    hand_set_time.sleep(7.0)
    worker.rested()
    hand_set_time.sleep(0.125)
    await worker.run(0.5, lambda: hand_set_time.sleep(0.25))
    assert hand_set_time.now == 100.0 + 0.5 + 7.0 + 0.5
    worker.close()


async def test_what_is_cancelled_is_waited_for_by_the_next() -> None:
    worker, began, may_end = PacedThread("test"), threading.Event(), threading.Event()
    done: list[str] = []

    def compute() -> None:
        began.set()
        may_end.wait(10)
        done.append("first")

    first = asyncio.create_task(worker.run(0.0, compute))
    await asyncio.to_thread(began.wait)
    first.cancel()
    second = asyncio.create_task(worker.run(0.0, lambda: done.append("second")))
    await asyncio.sleep(0)
    may_end.set()
    await second
    assert done == ["first", "second"]
    worker.close()


async def test_closing_waits_for_what_still_runs() -> None:
    worker = PacedThread("test")
    done: list[str] = []
    task = asyncio.create_task(worker.run(0.0, lambda: (time.sleep(0.02), done.append("done"))))
    await asyncio.sleep(0)
    worker.close()
    assert done == ["done"]
    await task
