"""common.pacing: stated costs are taken, overruns are reported, and one thing is computed at a time."""

import asyncio
import time

import pytest

from common.pacing import PacedThread, Timed


class Clock:
    """In place of `time`: sleeping lets it go on, and so does what is computed."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("common.pacing.time", clock)
    return clock


async def test_a_stated_cost_is_used_up(clock: Clock) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.5, lambda: clock.sleep(0.125))
    assert clock.now == 100.5
    assert timed == Timed(0.125, overran=False)
    worker.close()


async def test_what_takes_longer_than_stated_overruns(clock: Clock) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.25, lambda: clock.sleep(0.25), before=lambda: clock.sleep(0.5))
    assert clock.now == 100.75
    assert timed == Timed(0.75, overran=True)
    worker.close()


async def test_nothing_overruns_where_no_cost_is_stated(clock: Clock) -> None:
    worker = PacedThread("test")
    _, timed = await worker.run(0.0, lambda: clock.sleep(0.5))
    assert timed == Timed(0.5, overran=False)
    worker.close()


async def test_what_a_caller_does_between_two_computations_is_part_of_the_second_ones_cost(clock: Clock) -> None:
    worker = PacedThread("test")
    for _ in range(3):
        clock.sleep(0.125)
        _, timed = await worker.run(0.5, lambda: clock.sleep(0.25))
        assert timed == Timed(0.25, overran=False)
    assert clock.now == 100.0 + 3 * 0.5
    clock.sleep(0.375)
    _, timed = await worker.run(0.5, lambda: clock.sleep(0.25))
    assert timed == Timed(0.25, overran=True), "with what came before"
    worker.close()


async def test_a_wait_for_something_to_compute_is_not(clock: Clock) -> None:
    worker = PacedThread("test")
    await worker.run(0.5, lambda: None)
    clock.sleep(7.0)
    worker.rested()
    clock.sleep(0.125)
    await worker.run(0.5, lambda: clock.sleep(0.25))
    assert clock.now == 100.0 + 0.5 + 7.0 + 0.5
    worker.close()


async def test_what_is_cancelled_is_waited_for_by_the_next() -> None:
    begun = time.perf_counter()
    worker = PacedThread("test")
    done: list[str] = []
    first = asyncio.create_task(worker.run(0.05, lambda: done.append("first")))
    await asyncio.sleep(0.01)
    first.cancel()
    await worker.run(0.0, lambda: done.append("second"))
    assert done == ["first", "second"]
    assert time.perf_counter() - begun >= 0.05
    worker.close()


async def test_closing_waits_for_what_still_runs() -> None:
    worker = PacedThread("test")
    done: list[str] = []
    task = asyncio.create_task(worker.run(0.0, lambda: (time.sleep(0.02), done.append("done"))))
    await asyncio.sleep(0.005)
    worker.close()
    assert done == ["done"]
    await task
