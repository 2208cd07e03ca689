"""Running a Python program that a model wrote, in a process of its own, and the verdict on it.

What may live here: starting and ending that process and reading its report. It may not know tasks or answers.

What guards, and against what:

- limits of the kernel: endless loops (wall time and processor time), hunger (address space), floods (the size of a
  file; standard output goes nowhere, and of the report a bounded piece is read);
- namespaces of the kernel, where the system lets us have them, as root or through a user namespace: the network, and
  every change of a file outside the temporary directory that the process starts in; they hold whatever a program does;
- audit hooks of Python, everywhere: the same, and other processes, threads, signals and ctypes. They stop what a
  program does by accident or in good faith, which is what models write, but code that sets out to evade them can;
- an empty environment, closed descriptors, `python -I -S`: what happens to be set or installed here decides nothing.

Nothing here keeps a program from reading files, and a program that sets out to forge its own report can.
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
    """The sandbox could not do its work; this says nothing about the program."""


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error` is the last line of the exception, or how the process ended; empty unless the outcome is FAILED."""

    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` of wall time include the start of the process; `file_bytes` bounds each file that is written."""

    seconds: float = 10.0
    cpu_seconds: float = 5.0  # rounded up to whole seconds
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 2**20


LIMITS = Limits()


def run(program: Sequence[str], limits: Limits = LIMITS) -> Verdict:
    """Executes the sources one after another in one module, which passes if none of them raises.

    Standard library only, no network, no processes, no threads; blocks until the verdict. Raises SandboxError where
    there can be no verdict.
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
    """How the process ended, as subprocess has it, or None for by us, and its report."""
    with (
        # What a program leaves behind may be hard to remove, which is no fault of its answer.
        tempfile.TemporaryDirectory(prefix="outrider-sandbox-", ignore_cleanup_errors=True) as folder,
        # Files, because a pipe blocks a process that nobody reads, and is unbounded where somebody does.
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
            # Also what it left running: it leads a process group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report.seek(0)
        return ended, report.read(_REPORT_BYTES)


def verdict(ended: int | None, report: str) -> Verdict:
    """From how the process ended (None: by us, at the limit of time) and what it reported.

    Raises SandboxError where the process ended before the program's turn, or was killed by somebody else.
    """
    ready, *said = report.splitlines() or [""]
    if ready != confined.READY:
        why = "its time was up" if ended is None else (report.splitlines() or [f"status {ended}"])[-1]
        raise SandboxError(f"the sandbox's process ended before the program's turn: {why}")
    word, _, rest = (said or [""])[0].partition(" ")
    if word == confined.PASSED:
        return Verdict(Outcome.PASSED)
    if word == confined.FAILED:
        return Verdict(Outcome.FAILED, rest)
    if word == confined.OUT_OF_MEMORY:
        return Verdict(Outcome.OUT_OF_MEMORY)
    if ended in (None, -signal.SIGXCPU):
        return Verdict(Outcome.TIMED_OUT)
    if ended == -signal.SIGKILL:
        raise SandboxError(
            "the sandbox's process was killed from outside, as the kernel does for want of memory; run fewer at once"
        )
    return Verdict(Outcome.FAILED, f"the process ended itself, {_in_words(ended)}")


def _in_words(ended: int) -> str:
    if ended >= 0:
        return f"status {ended}"
    try:
        return signal.Signals(-ended).name
    except ValueError:  # real-time signals have no name
        return f"signal {-ended}"
