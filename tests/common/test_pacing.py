"""common.pacing: stated costs are taken, overruns are reported, and one thing is computed at a time."""

import asyncio
import time

from common.pacing import PacedThread, run_paced


def test_a_stated_cost_is_used_up() -> None:
    begun = time.perf_counter()
    result, timed = run_paced(0.02, lambda: "done")
    assert result == "done"
    assert time.perf_counter() - begun >= 0.02
    assert timed.seconds < 0.02
    assert not timed.overran


def test_what_takes_longer_than_stated_overruns() -> None:
    _, timed = run_paced(0.001, lambda: time.sleep(0.005))
    assert timed.overran
    assert timed.seconds >= 0.005


def test_nothing_overruns_where_no_cost_is_stated() -> None:
    _, timed = run_paced(0.0, lambda: time.sleep(0.001))
    assert not timed.overran


async def test_what_is_cancelled_is_waited_for_by_the_next() -> None:
    worker = PacedThread("test")
    done: list[str] = []
    first = asyncio.create_task(worker.run(0.05, lambda: done.append("first")))
    await asyncio.sleep(0.01)
    begun = time.perf_counter()
    first.cancel()
    await worker.run(0.0, lambda: done.append("second"))
    assert done == ["first", "second"]
    assert time.perf_counter() - begun > 0.02
    worker.close()


async def test_closing_waits_for_what_still_runs() -> None:
    worker = PacedThread("test")
    done: list[str] = []
    task = asyncio.create_task(worker.run(0.0, lambda: (time.sleep(0.02), done.append("done"))))
    await asyncio.sleep(0.005)
    worker.close()
    assert done == ["done"]
    await task
