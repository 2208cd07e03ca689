"""Time that jumps: what would have been waited for has come, in its order, and nothing else takes any time."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.pacing import WAKE_S
from netem.virtual.clock import StalledError, VirtualWorker, run_virtually

EXACT = 1e-6
"""Seconds. A turn of the loop takes a little of virtual time."""


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_week_passes_at_once() -> None:
    async def sleep() -> float:
        await asyncio.sleep(7 * 86400)
        return now()

    assert run_virtually(sleep()) == pytest.approx(7 * 86400, abs=EXACT)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_what_sleeps_shorter_wakes_first_and_at_its_own_time(delays: list[float]) -> None:
    async def sleep_all() -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []

        async def sleep(delay: float) -> None:
            await asyncio.sleep(delay)
            woken.append((delay, now()))

        await asyncio.gather(*map(sleep, delays))
        return woken

    woken = run_virtually(sleep_all())
    times = [time for _, time in woken]
    assert times == sorted(times)
    assert [delay for delay, _ in woken] == pytest.approx(sorted(delays), abs=EXACT)
    assert times == pytest.approx(sorted(delays), abs=EXACT)


def test_what_is_due_at_the_same_time_runs_in_the_same_order_in_every_run() -> None:
    async def set_timers() -> list[int]:
        ran: list[int] = []
        for index in range(50):
            asyncio.get_running_loop().call_at(1.0, ran.append, index)
        await asyncio.sleep(2)
        return ran

    first, second = (run_virtually(set_timers()) for _ in range(2))
    assert first == second
    assert sorted(first) == list(range(50))


def test_a_time_limit_is_met_in_virtual_time() -> None:
    async def wait() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 40)
        return now()

    assert run_virtually(wait()) == pytest.approx(40, abs=EXACT)


def test_where_everything_waits_for_ever_the_run_says_so_and_what_waited_is_tidied_up() -> None:
    tidied = []

    async def wait() -> None:
        try:
            await asyncio.sleep(3)
            await asyncio.Event().wait()
        finally:
            tidied.append(now())

    with pytest.raises(StalledError):
        run_virtually(wait())
    assert tidied == pytest.approx([3], abs=EXACT)


def test_every_run_begins_at_nought() -> None:
    async def begin() -> float:
        begun = now()
        await asyncio.sleep(9)
        return begun

    assert [run_virtually(begin()) for _ in range(2)] == pytest.approx([0, 0], abs=EXACT)


def test_executors_compute_in_no_time_and_raise_what_was_raised() -> None:
    async def compute() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        return await loop.run_in_executor(None, math.gcd, 12, 18), now()

    assert run_virtually(compute()) == (6, pytest.approx(0, abs=EXACT))


def test_a_worker_computes_at_once_and_answers_when_its_stated_cost_is_used_up() -> None:
    async def work() -> list[float]:
        computed: list[float] = []
        result, timed = await VirtualWorker("any").run(0.25, lambda: computed.append(now()) or "done")
        assert (result, timed.seconds, timed.overran) == ("done", 0.25, False)
        return [*computed, now()]

    assert run_virtually(work()) == pytest.approx([0, 0.25 + WAKE_S], abs=EXACT)


def test_workers_work_side_by_side() -> None:
    async def work() -> float:
        workers = [VirtualWorker(name) for name in ("one", "other")]
        await asyncio.gather(*(worker.run(1.5, lambda: None) for worker in workers))
        return now()

    assert run_virtually(work()) == pytest.approx(1.5 + WAKE_S, abs=EXACT)


def test_a_worker_does_one_thing_at_a_time_even_where_nobody_waits_for_the_first() -> None:
    async def work() -> float:
        worker = VirtualWorker("any")
        first = asyncio.create_task(worker.run(1.0, lambda: None))
        await asyncio.sleep(0.25)
        first.cancel()
        await worker.run(0.5, lambda: None)
        return now()

    assert run_virtually(work()) == pytest.approx(1.5 + 2 * WAKE_S, abs=EXACT)


def test_what_another_thread_would_say_is_heard() -> None:
    """The engine hands draft state over that way, from a worker that here is none."""

    async def hear() -> list[int]:
        heard: list[int] = []
        asyncio.get_running_loop().call_soon_threadsafe(heard.append, 7)
        await asyncio.sleep(0.001)
        return heard

    assert run_virtually(hear()) == [7]
