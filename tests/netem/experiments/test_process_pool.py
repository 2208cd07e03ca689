"""Functions in processes of their own, which do not outlive who waits for them."""

import asyncio
import os
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from netem.experiments.process_pool import in_process, process_pool

pytestmark = pytest.mark.usefixtures("forked_pools")

ENDLESS_S = 600.0


def _fail() -> None:
    raise ValueError("as it should")


def _stay(began: Path) -> None:
    began.write_text(str(os.getpid()))
    time.sleep(ENDLESS_S)


async def _pid_in(file: Path) -> int:
    while not (file.exists() and file.read_text()):
        await asyncio.sleep(0.01)
    return int(file.read_text())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_a_function_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="as it should"):
        asyncio.run(in_process(_fail))


def test_a_function_that_nobody_waits_for_any_more_ends(tmp_path: Path) -> None:
    async def cancelled() -> int:
        waiting = asyncio.create_task(in_process(_stay, tmp_path / "began"))
        pid = await _pid_in(tmp_path / "began")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return pid

    assert not _runs(asyncio.run(cancelled()))


def test_an_error_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    async def failed() -> tuple[int, list[Future[None]]]:
        submitted: list[Future[None]] = []
        with suppress(ValueError), process_pool(1) as pool:
            submitted += [pool.submit(_stay, tmp_path / name) for name in ("began", "b", "c", "d")]
            pid = await _pid_in(tmp_path / "began")
            _fail()
        return pid, submitted

    pid, submitted = asyncio.run(failed())
    assert not _runs(pid)
    assert all(each.done() for each in submitted)
    assert [each.name for each in tmp_path.iterdir()] == ["began"]
