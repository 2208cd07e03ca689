"""Whether other programs use this machine, so that what is timed on it can be trusted. Knows no experiment."""

import asyncio
import os
from pathlib import Path

QUIET_BELOW = 0.2
"""Cores that other programs may keep busy."""

_SAMPLE_S = 5.0
_PATIENCE_S = 900.0
_PROC_STAT = Path("/proc/stat")
_IDLE = slice(3, 5)  # idle and waiting for input or output


async def is_quiet(patience_s: float = _PATIENCE_S) -> bool:
    """Waits until the machine is quiet, at most so long, and returns whether it is."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + patience_s
    while await busy_cores() >= QUIET_BELOW:
        if clock() >= deadline:
            return False
    return True


async def busy_cores() -> float:
    """The cores that were in use over some seconds; without Linux's own counters, the load average of a minute."""
    if not _PROC_STAT.exists():
        await asyncio.sleep(_SAMPLE_S)
        return os.getloadavg()[0]
    busy, every = _ticks()
    await asyncio.sleep(_SAMPLE_S)
    busy_later, every_later = _ticks()
    return (os.cpu_count() or 1) * (busy_later - busy) / max(1, every_later - every)


def _ticks() -> tuple[int, int]:
    """Ticks in use, and all, of all cores since the machine started."""
    counters = [int(word) for word in _PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return sum(counters) - sum(counters[_IDLE]), sum(counters)
