import asyncio
import os

import pytest

from netem.experiments.sizes import process
from netem.experiments.sizes.process import Resident, in_process, resident
from tests.programs import FORKS


@pytest.fixture
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function still has a process of its own, which need not import everything anew."""
    monkeypatch.setattr(process, "get_context", lambda _: FORKS)


def _hold(megabytes: int) -> tuple[int, int]:
    before = resident().now
    held = b"\1" * (megabytes * 1_000_000)
    return os.getpid(), resident().now - before + 0 * len(held)


def _fail() -> None:
    raise ValueError("as it should")


def test_a_function_runs_in_a_process_of_its_own_whose_memory_is_seen() -> None:
    pid, grown = asyncio.run(in_process(_hold, 64))
    assert pid != os.getpid()
    assert 60_000_000 < grown < 80_000_000


@pytest.mark.usefixtures("_forked")
def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="as it should"):
        asyncio.run(in_process(_fail))


def _release(megabytes: int) -> tuple[Resident, Resident]:
    held = bytearray(b"\1" * (megabytes * 1_000_000))
    before = resident()
    del held
    return before, resident(os.getpid())


@pytest.mark.usefixtures("_forked")
def test_what_was_given_back_counts_in_the_peak_alone() -> None:
    before, after = asyncio.run(in_process(_release, 100))
    assert before.now - after.now > 90_000_000
    assert after.peak > before.now - 10_000_000
