"""What a process holds: memory, threads, open files, read from the operating system while it runs."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import psutil

_PERIOD_SECONDS = 5.0

WARM_UP = 0.25
"""The share of a run after which a process should hold what it will hold."""


@dataclass(frozen=True, slots=True)
class Reading:
    seconds: float  # since the beginning
    bytes: int  # resident
    threads: int
    files: int


@dataclass(slots=True)
class Gauges:
    """Of processes by name, which are read until `watch` is cancelled."""

    pids: Mapping[str, int]
    readings: dict[str, list[Reading]] = field(default_factory=dict)

    async def watch(self) -> None:
        processes = {name: psutil.Process(pid) for name, pid in self.pids.items()}
        self.readings = {name: [] for name in processes}
        began = time.monotonic()
        while True:
            for name, process in processes.items():
                seconds = time.monotonic() - began
                held = process.memory_info().rss, process.num_threads(), process.num_fds()
                self.readings[name].append(Reading(seconds, *held))
            await asyncio.sleep(_PERIOD_SECONDS)


@dataclass(frozen=True, slots=True)
class Growth:
    """Medians of the first and of the last third of what follows the warm-up."""

    before: int  # bytes
    after: int
    threads: tuple[int, int]
    files: tuple[int, int]

    @property
    def share(self) -> float:
        """By which memory grew, -0.05 to 0.05 for flat within 5%."""
        return self.after / self.before - 1


def growth(readings: list[Reading]) -> Growth:
    """Of at least 12 readings."""
    warm = readings[int(WARM_UP * len(readings)) :]
    third = len(warm) // 3
    first, last = warm[:third], warm[-third:]

    def both(values: list[list[int]]) -> tuple[int, int]:
        return int(median(values[0])), int(median(values[1]))

    before, after = both([[each.bytes for each in part] for part in (first, last)])
    threads = both([[each.threads for each in part] for part in (first, last)])
    files = both([[each.files for each in part] for part in (first, last)])
    return Growth(before, after, threads, files)
