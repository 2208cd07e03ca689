"""What a command of the lab starts ends with it, by Ctrl-C, SIGTERM and SIGHUP, also where it is stopped or deaf."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from common.protocol.errors import OutriderError
from netem.commands import children as children_module
from netem.commands.children import Children
from tests.programs import FORKS

SLEEP = "import time; time.sleep(120)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(120)"


def is_alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "it does not come true"
        time.sleep(0.02)


def start(children: Children, line: str, tmp_path: Path) -> "subprocess.Popen[bytes]":
    with (tmp_path / "log").open("ab") as log:
        return children.start([sys.executable, "-c", line], log)


def test_a_child_that_is_stopped_ends_with_the_block(tmp_path: Path) -> None:
    began = time.monotonic()
    with Children() as children:
        process = start(children, SLEEP, tmp_path)
        os.killpg(process.pid, signal.SIGSTOP)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - began < 5


def test_a_child_that_does_not_listen_is_killed_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_module, "_ENDING_S", 0.2)
    own = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True); {DEAF}"
    with Children() as children:
        process = start(children, own, tmp_path)
        wait_for(lambda: "deaf" in (tmp_path / "log").read_text())
    assert process.returncode == -signal.SIGKILL
    grandchild = int((tmp_path / "log").read_text().split()[0])
    wait_for(lambda: not is_alive(grandchild))


def test_nothing_is_started_behind_the_end(tmp_path: Path) -> None:
    with Children() as children:
        pass
    with pytest.raises(OutriderError, match="any more"):
        start(children, SLEEP, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_block_whatever_errors_it_handles(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def handle_all_errors() -> None:
        with Children(), suppress(Exception):
            os.kill(os.getpid(), number)
            time.sleep(10)

    with pytest.raises(OutriderError, match=f"ended by {number.name}"):
        handle_all_errors()
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_interrupt_the_end_of_children() -> None:
    ended = []

    def end_twice() -> None:
        with Children():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.05)
                ended.append(True)

    with pytest.raises(OutriderError):
        end_twice()
    assert ended


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, OutriderError), (signal.SIGINT, KeyboardInterrupt)], ids=["TERM", "INT"]
)
def test_a_child_that_is_being_started_when_a_signal_comes_ends_too(
    number: signal.Signals, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def signalled(*given: Any, **more: Any) -> "subprocess.Popen[bytes]":
        started.append(popen(*given, **more))
        os.kill(os.getpid(), number)
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", signalled)
    with pytest.raises(error), Children() as children:
        start(children, SLEEP, tmp_path)
    assert started[0].returncode == -signal.SIGTERM


def test_a_signal_that_another_thread_gets_ends_a_wait_for_a_child(tmp_path: Path) -> None:
    """As one does that comes just before the main thread waits: no call of its own is interrupted."""

    def interrupt() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        blocked.wait(60)

    def wait() -> None:
        with Children() as children:
            started.append(start(children, "import time; time.sleep(20)", tmp_path))
            thread.start()
            children.wait(started[0])

    started, blocked = list["subprocess.Popen[bytes]"](), threading.Event()
    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        wait()
    blocked.set()
    thread.join()
    assert started[0].returncode == -signal.SIGTERM, "it did not end by itself"


RESULTS = """
from pathlib import Path
from netem.commands import results
from netem.experiments.kept_runs import KeptRun
from netem.experiments.provenance import SourceTree
import netem.commands.results as results

results.source_tree = lambda: SourceTree("c0ffee", False)
results.sys.executable = {program!r}
runs = [KeptRun("law", "law"), KeptRun("families", "families")]
results.make_results(runs, Path({out!r}), {{}}, jobs={jobs})
"""
GPU = """
import math
from pathlib import Path
from netem.commands import gpu
from netem.experiments.gpu_parts import Part

gpu.sys.executable = {program!r}
parts = [
    Part("behind", "sleeper", (), 9, in_background=True),
    Part("brief", "sleeper", ("brief",), 9),
    Part("timed", "sleeper", (), 9, timed=True),
]
gpu.run_parts(parts, Path({out!r}), math.inf, rehearsed=True)
"""


def run_quietly(code: str) -> None:
    """In a process that is forked for it. Importing what a command needs takes longer than all else."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    exec(code, {})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("command", "jobs", "children", "number"),
    [
        (RESULTS, 1, 1, signal.SIGTERM),
        (RESULTS, 2, 2, signal.SIGTERM),
        (RESULTS, 2, 2, signal.SIGINT),
        (GPU, 1, 2, signal.SIGTERM),
    ],
    ids=["results", "two jobs", "two jobs, Ctrl-C", "gpu"],
)
def test_a_command_that_is_ended_leaves_no_experiment(
    command: str, jobs: int, children: int, number: signal.Signals, tmp_path: Path
) -> None:
    """Of `gpu`, the one in the background is halted by then; the brief one waits until it runs."""
    program, pids = tmp_path / "python", tmp_path / "pids"
    program.write_text(
        f'#!/bin/sh\nif [ "$3" = brief ]; then until [ -s {pids} ]; do sleep 0.05; done; exit; fi\n'
        f"echo $$ >> {pids}\nexec sleep 120\n"
    )
    program.chmod(0o755)
    code = command.format(program=str(program), out=str(tmp_path / "out"), jobs=jobs)
    running = FORKS.Process(target=run_quietly, args=(code,))
    running.start()
    try:
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == children)
        started = [int(pid) for pid in pids.read_text().split()]
        if command is GPU:
            wait_for(lambda: "(stopped)" in Path(f"/proc/{started[0]}/status").read_text())
        assert running.pid is not None
        os.kill(running.pid, number)
        running.join(30)
        assert running.exitcode is not None
        assert not any(map(is_alive, started))
    finally:
        running.kill()
        for pid in pids.read_text().split() if pids.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
