"""What a process held before and after, and that it is read from the process itself."""

import asyncio
import os

import pytest

from netem.experiments.service import process_monitor
from netem.experiments.service.process_monitor import ProcessMonitor, ProcessReading, growth


def readings(*megabytes: int, threads: int = 3) -> list[ProcessReading]:
    return [ProcessReading(index, each * 10**6, threads, 5) for index, each in enumerate(megabytes)]


def test_what_comes_first_is_warm_up_and_counts_for_nothing():
    grown = growth(readings(*[10, 20, 30], *[100] * 9))
    assert grown.share == 0.0
    assert (grown.before, grown.after) == (100 * 10**6, 100 * 10**6)


def test_growth_is_between_the_first_and_the_last_third_and_one_peak_is_none():
    steps = [0, 0, 0, 0, 100, 100, 500, 100, 105, 105, 110, 110, 110, 110, 110, 900]
    assert growth(readings(*steps)).share == pytest.approx(0.1)


async def test_a_process_is_read_until_nobody_wants_to_know(monkeypatch):
    monkeypatch.setattr(process_monitor, "_PERIOD_SECONDS", 0.001)
    gauges = ProcessMonitor({"this": os.getpid()})
    watching = asyncio.create_task(gauges.watch())
    while len(gauges.readings.get("this", ())) < 3:
        await asyncio.sleep(0.001)
    watching.cancel()
    first = gauges.readings["this"][0]
    assert first.bytes > 10**6
    assert first.threads >= 1
    assert first.files >= 3
