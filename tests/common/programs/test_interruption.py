"""Ctrl-C and SIGTERM in a process of its own, while nothing is to be saved."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from common.programs.interruption import INTERRUPTED, TERMINATED, ended_at_once

BEGIN = """
import asyncio, sys, time
from client.terminal.loading import loading

def begun():
    print("begun", flush=True)
"""
# Loads in short calls, as imports do: Python sees a signal that comes just before a call only after it.
BUSY = """
async def load():
    begun()
    for _ in range(600):
        time.sleep(0.1)  # on the loop's own thread

with loading() as loaded:
    asyncio.run(load())
"""
LOADED = """
async def answer(loaded):
    loaded()
    try:
        begun()
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)
        print("in good order", flush=True)

try:
    with loading() as loaded:
        asyncio.run(answer(loaded))
except KeyboardInterrupt:
    sys.exit(7)
"""
IGNORED = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
with loading():
    begun()
    signal.sigtimedwait([], 1.0)
sys.exit(9)
"""
PROGRAM = """
import time
import typer
from common.programs.command_line import run

app = typer.Typer()

@app.command()
def load():
    print("begun", flush=True)
    for _ in range(600):
        time.sleep(0.1)

run(app, "tool")
"""
IN_ITS_OWN_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


def can_unshare() -> bool:
    command = (*IN_ITS_OWN_PID_NAMESPACE, "true")
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def terminated(*before: str) -> tuple[int, str]:
    """Exit code and errors of a program that is told to end while it loads, started by `before`."""
    command = (*before, sys.executable, "-c", PROGRAM)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        [program] = children_of(process.pid) if before else [process.pid]
        os.kill(program, signal.SIGTERM)
        try:
            _, err = process.communicate(timeout=10)
        finally:
            process.kill()
        return process.returncode, err


def interrupted(code: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that is interrupted once it has begun."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
        return process.returncode, out, err


def test_a_program_that_loads_ends_at_once_and_says_so():
    assert interrupted(BUSY) == (INTERRUPTED, "", "outrider: stopped\n")


def test_what_has_loaded_is_ended_in_good_order():
    assert interrupted(LOADED) == (7, "in good order\n", "")


def test_a_program_that_ignores_ctrl_c_goes_on_ignoring_it():
    assert interrupted(IGNORED) == (9, "", "")


def test_the_handler_is_gone_behind_the_block():
    before = signal.getsignal(signal.SIGINT)
    with ended_at_once("stopped") as restore:
        assert signal.getsignal(signal.SIGINT) is not before
        restore()
        assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(OSError, match="no"), ended_at_once("stopped"):
        raise OSError("no")
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_ends_a_program_that_loads_by_the_signal():
    """Service managers take that as a clean end."""
    assert terminated() == (-signal.SIGTERM, "")


@pytest.mark.skipif(not can_unshare(), reason="needs Linux and the privilege to make a PID namespace")
def test_sigterm_ends_the_first_process_of_a_container_that_loads():
    """The kernel drops a signal to it that has no handler."""
    assert terminated(*IN_ITS_OWN_PID_NAMESPACE) == (TERMINATED, "tool: stopped\n")
