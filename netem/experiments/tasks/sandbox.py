"""Runs a Python program that a model wrote in a process of its own, and makes the verdict on it.

What may live here: starting and ending that process and reading its report. It may not know tasks or answers.

Protection:

- limits of the kernel against endless loops (wall time and processor time), memory (address space) and output (the size
  of a file; standard output is dropped, and a bounded part of the report is read);
- namespaces of the kernel, where the system allows them, as root or through a user namespace, against the network and
  every change of a file outside the temporary directory; a program cannot evade them;
- audit hooks of Python, always, against the same and against other processes, threads, signals and ctypes. They stop
  what a program does by accident, which is the usual case, but a malicious program can evade them;
- an empty environment, closed descriptors and `python -I -S`, so that this machine's settings and packages have no
effect.

A program can read files, and a malicious program can forge its own report.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from common.protocol.errors import OutriderError
from netem.experiments.tasks import confined

_REPORT_BYTES = 4096


class SandboxError(OutriderError):
    """The sandbox failed; this says nothing about the program."""


class ProgramOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class ProgramVerdict:
    """`error` is the last line of the exception, or how the process ended; empty unless the outcome is FAILED."""

    outcome: ProgramOutcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """`seconds` of wall time include the start of the process; `file_bytes` bounds each file that is written."""

    seconds: float = 10.0
    cpu_seconds: float = 5.0  # rounded up to whole seconds
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 2**20


LIMITS = SandboxLimits()


def run(program: Sequence[str], limits: SandboxLimits = LIMITS) -> ProgramVerdict:
    """Executes the sources one after another in one module; the program passes if none of them raises.

    It has the standard library only, and no network, processes or threads. Blocks until the verdict. Raises
    SandboxError
    where there can be no verdict.
    """
    order = {
        "program": list(program),
        "limits": {
            "memory_bytes": limits.memory_bytes,
            "cpu_seconds": math.ceil(limits.cpu_seconds),
            "file_bytes": limits.file_bytes,
        },
    }
    try:
        ended, report = _carry_out(json.dumps(order).encode(), limits.seconds)
    except OSError as error:
        raise SandboxError(f"the sandbox's process could not be started: {error}") from error
    return verdict(ended, report.decode(errors="replace"))


def _carry_out(order: bytes, seconds: float) -> tuple[int | None, bytes]:
    """The return code of the process, None where it was killed at the time limit, and its report."""
    with (
        # Files that a program leaves may be hard to remove, which must not change the verdict.
        tempfile.TemporaryDirectory(prefix="outrider-sandbox-", ignore_cleanup_errors=True) as folder,
        # Files, because a pipe blocks a process without a reader, and is unbounded with one.
        tempfile.TemporaryFile() as orders,
        tempfile.TemporaryFile() as report,
    ):
        orders.write(order)
        orders.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(Path(confined.__file__).resolve())],
            cwd=folder,
            env={},
            stdin=orders,
            stdout=subprocess.DEVNULL,
            stderr=report,
            start_new_session=True,
        )
        try:
            ended = process.wait(seconds)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            # Kills its children too: the process leads a process group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report.seek(0)
        return ended, report.read(_REPORT_BYTES)


def verdict(ended: int | None, report: str) -> ProgramVerdict:
    """The verdict from the return code (None: killed at the time limit) and the report.

    Raises SandboxError where the process ended before the program ran, or was killed from outside.
    """
    ready, *said = report.splitlines() or [""]
    if ready != confined.READY:
        why = "its time was up" if ended is None else (report.splitlines() or [f"status {ended}"])[-1]
        raise SandboxError(f"the sandbox's process ended before the program's turn: {why}")
    word, _, rest = (said or [""])[0].partition(" ")
    if word == confined.PASSED:
        return ProgramVerdict(ProgramOutcome.PASSED)
    if word == confined.FAILED:
        return ProgramVerdict(ProgramOutcome.FAILED, rest)
    if word == confined.OUT_OF_MEMORY:
        return ProgramVerdict(ProgramOutcome.OUT_OF_MEMORY)
    if ended in (None, -signal.SIGXCPU):
        return ProgramVerdict(ProgramOutcome.TIMED_OUT)
    if ended == -signal.SIGKILL:
        raise SandboxError(
            "the sandbox's process was killed from outside, as the kernel does for want of memory; run fewer at once"
        )
    return ProgramVerdict(ProgramOutcome.FAILED, f"the process ended itself, {_in_words(ended)}")


def _in_words(ended: int) -> str:
    if ended >= 0:
        return f"status {ended}"
    try:
        return signal.Signals(-ended).name
    except ValueError:  # real-time signals have no name
        return f"signal {-ended}"
