"""Reads memory, threads and open files of processes from the operating system while they run."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import psutil

_PERIOD_SECONDS = 5.0

WARM_UP_SHARE = 0.25
"""The share of a run after which a process should have reached its final size."""


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """seconds: since the beginning of the run. bytes: of resident memory. threads, files: counts."""

    seconds: float
    bytes: int
    threads: int
    files: int


@dataclass(slots=True)
class ProcessMonitor:
    """Reads processes by name every 5 s until `watch` is cancelled."""

    pids: Mapping[str, int]
    readings: dict[str, list[ProcessReading]] = field(default_factory=dict)

    async def watch(self) -> None:
        processes = {name: psutil.Process(pid) for name, pid in self.pids.items()}
        self.readings = {name: [] for name in processes}
        began = time.monotonic()
        while True:
            for name, process in processes.items():
                seconds = time.monotonic() - began
                held = process.memory_info().rss, process.num_threads(), process.num_fds()
                self.readings[name].append(ProcessReading(seconds, *held))
            await asyncio.sleep(_PERIOD_SECONDS)


@dataclass(frozen=True, slots=True)
class Growth:
    """Medians of the first and the last third of the readings after the warm-up. before, after: bytes."""

    before: int
    after: int
    threads: tuple[int, int]
    files: tuple[int, int]

    @property
    def share(self) -> float:
        """The relative growth of memory: 0.05 is 5%."""
        return self.after / self.before - 1


def growth(readings: list[ProcessReading]) -> Growth:
    """readings: at least 12."""
    warm = readings[int(WARM_UP_SHARE * len(readings)) :]
    third = len(warm) // 3
    first, last = warm[:third], warm[-third:]

    def both(values: list[list[int]]) -> tuple[int, int]:
        return int(median(values[0])), int(median(values[1]))

    before, after = both([[each.bytes for each in part] for part in (first, last)])
    threads = both([[each.threads for each in part] for part in (first, last)])
    files = both([[each.files for each in part] for part in (first, last)])
    return Growth(before, after, threads, files)
