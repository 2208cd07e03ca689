import asyncio
import os

import pytest

from netem.experiments.process_pool import in_process
from netem.experiments.sizes.memory import Resident, resident


def _hold(megabytes: int) -> tuple[int, int]:
    before = resident().now
    held = b"\1" * (megabytes * 1_000_000)
    return os.getpid(), resident().now - before + 0 * len(held)


def test_the_memory_of_a_process_of_its_own_is_seen() -> None:
    pid, grown = asyncio.run(in_process(_hold, 64))
    assert pid != os.getpid()
    assert 60_000_000 < grown < 80_000_000


def _release(megabytes: int) -> tuple[Resident, Resident]:
    held = bytearray(b"\1" * (megabytes * 1_000_000))
    before = resident()
    del held
    return before, resident(os.getpid())


@pytest.mark.usefixtures("forked_pools")
def test_what_was_given_back_counts_in_the_peak_alone() -> None:
    before, after = asyncio.run(in_process(_release, 100))
    assert before.now - after.now > 90_000_000
    assert after.peak > before.now - 10_000_000
