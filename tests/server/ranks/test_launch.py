"""Ranks as child processes end with rank 0, however it goes, and rank 0 hears of one that ends before."""

import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from server.ranks import launch
from server.ranks.launch import ChildRanks

ENDING_S = 30.0


@pytest.fixture
def idle_follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for a rank that waits for a command."""
    follower = tmp_path / "follower.py"
    follower.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(launch, "_FOLLOWER", follower)
    return follower


@pytest.fixture
def sentences() -> "queue.Queue[str]":
    return queue.Queue()


def children(pid: int | None = None) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "follower.py" in " ".join(child.cmdline())]


@pytest.fixture(autouse=True)
def _none_is_left() -> Iterator[None]:
    yield
    assert children() == []


@pytest.mark.usefixtures("idle_follower")
def test_they_end_when_they_are_closed(sentences: "queue.Queue[str]") -> None:
    with closing(ChildRanks(3, "cpu", sentences.put)):
        assert len(children()) == 2
    assert children() == []
    assert sentences.empty()


@pytest.mark.usefixtures("idle_follower")
def test_killed_at_once_they_leave_nothing(sentences: "queue.Queue[str]") -> None:
    with closing(ChildRanks(3, "cpu", sentences.put)) as ranks:
        folder = Path(ranks.store).parent
        assert folder.exists()
        others = children()
        ranks.kill()
        assert not folder.exists()
        gone, alive = psutil.wait_procs(others, ENDING_S)
        assert (len(gone), alive) == (2, [])
    assert sentences.empty()


@pytest.mark.usefixtures("idle_follower")
def test_one_that_ends_before_is_named(sentences: "queue.Queue[str]") -> None:
    with closing(ChildRanks(3, "cpu", sentences.put)):
        children()[1].kill()
        assert sentences.get(timeout=ENDING_S) == "rank 2 of the target ended by SIGKILL; start the server again"


def test_nothing_is_imported_from_the_working_directory(
    idle_follower: Path, sentences: "queue.Queue[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    idle_follower.write_text("raise SystemExit(0)\n")
    (idle_follower.parent / "common.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(idle_follower.parent)
    with closing(ChildRanks(2, "cpu", sentences.put)):
        assert "with exit code 0" in sentences.get(timeout=ENDING_S)


def test_they_end_when_rank_0_is_killed(idle_follower: Path) -> None:
    code = (
        "import pathlib, sys, time; from server.ranks import launch; launch._FOLLOWER = pathlib.Path(sys.argv[1]); "
        "ranks = launch.ChildRanks(3, 'cpu', print); print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(idle_follower)], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        others = psutil.Process(first.pid).children()
        assert len(others) == 2
        first.kill()
    gone, alive = psutil.wait_procs(others, ENDING_S)
    assert (len(gone), alive) == (2, [])


def test_one_that_is_stopped_does_not_outlive_a_daemon_that_lost_it(idle_follower: Path) -> None:
    code = """
import pathlib, signal, sys, time
from server.rank_info import RankInfo
from server.ranks import launch, lead
launch._FOLLOWER, lead._GRACE_S = pathlib.Path(sys.argv[1]), 0.1
daemon = lead.Lead(RankInfo(ranks=2, local=2))
daemon._children = launch.ChildRanks(2, "cpu", print)
(stopped,) = daemon._children._children
stopped.send_signal(signal.SIGSTOP)
print(stopped.pid, flush=True)
daemon._lose("a rank of the target hangs")
time.sleep(600)
"""
    command = [sys.executable, "-c", code, str(idle_follower)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        stopped = psutil.Process(int(daemon.stdout.readline()))
        assert daemon.wait(ENDING_S) == 1
        _, alive = psutil.wait_procs([stopped], 5)
        for process in alive:
            process.kill()
        assert alive == []
        assert daemon.communicate()[1] == b"outriderd: a rank of the target hangs\n"
