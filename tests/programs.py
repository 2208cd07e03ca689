"""Our programs as child processes, forked from a process that has already imported them: this saves seconds for each.

From `main` on they run as usual, except that Python is not finalised at the end. What is read on import, such as the
path of the hub's cache, is as it was at the first start of any program. Tests that depend on one of these start the
program themselves, by `command`.
"""

import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Self, TextIO

_MODULES = {"outrider": "client.cli", "outriderd": "server.cli"}
IMPORTED = (
    *_MODULES.values(),
    *("client.commands.run", "client.commands.chat", "client.commands.serve", "common.drafters.load", "server.daemon"),
    *("server.assembly", "transformers.models.llama.modeling_llama", "transformers.models.auto.tokenization_auto"),
)

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(IMPORTED))


def command(name: str) -> str:
    """The path of the installed program."""
    program = shutil.which(name, path=Path(sys.executable).parent)
    assert program is not None, f"{name} is not installed"
    return program


class Program:
    """As much of `subprocess.Popen` in text mode as tests need."""

    def __init__(
        self,
        name: str,
        *arguments: str,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        """`stdin` and the others are `subprocess.PIPE` or `DEVNULL`, or None to share the test's own, as it shares the
        environment."""
        ends = [_Ends.of(stream, wanted) for stream, wanted in enumerate((stdin, stdout, stderr))]
        self.stdin, self.stdout, self.stderr = (end.ours for end in ends)
        passed = [_Passed(end.theirs) for end in ends]
        given = dict(os.environ if environment is None else environment)
        self._process = FORKS.Process(target=_run, args=(name, arguments, passed, given), daemon=True)
        self._process.start()
        for end in ends:
            if end.is_new:
                os.close(end.theirs)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # the process is gone, but its exit was not reported yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, said: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Its output from now on, up to its end, which must come before the time-out."""
        with ThreadPoolExecutor() as threads:
            written = [threads.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)]
            try:
                if self.stdin:
                    with suppress(BrokenPipeError):  # its output tells why
                        self.stdin.write(said)
                        self.stdin.close()
                self.wait(timeout)
                out, err = ("" if each is None else each.result(timeout) for each in written)
            except BaseException:
                self.kill()  # so that no reader waits for ever
                raise
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process in any case."""
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()


def finished(name: str, *arguments: str) -> str:
    """The output of a program that must succeed."""
    with Program(name, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        out, err = program.communicate()
        assert program.returncode == 0, err
        return out


@dataclass(frozen=True)
class _Ends:
    """Both ends of one standard stream: the test's, None where it needs none, and the program's."""

    ours: TextIO | None
    theirs: int
    is_new: bool = True

    @classmethod
    def of(cls, stream: int, wanted: int | None) -> "_Ends":
        if wanted is None:
            return cls(None, stream, is_new=False)
        if wanted == subprocess.DEVNULL:
            return cls(None, os.open(os.devnull, os.O_RDWR))
        read, write = os.pipe()
        if stream == 0:
            return cls(open(write, "w", encoding="utf-8"), read)
        return cls(open(read, encoding="utf-8"), write)


@dataclass(frozen=True)
class _Passed:
    """A file descriptor that is handed to the process that receives this object."""

    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (DupFd(self.number),)


def _taken(passed: Any) -> int:
    number: int = passed.detach()
    return number


def _run(name: str, arguments: Sequence[str], streams: Sequence[int], environment: dict[str, str]) -> None:
    for stream, passed in enumerate(streams):
        os.dup2(passed, stream)
        os.close(passed)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    importlib.import_module(_MODULES[name]).main()
