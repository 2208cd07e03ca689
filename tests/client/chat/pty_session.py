"""A program on a real pseudo-terminal, and what a user would see of it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyte

from tests.programs import FORKS, Program, _Passed, _run

_SECONDS = 60.0
_WIDTH, _HEIGHT = 100, 40
_WHERE = b"\x1b[6n"
# In a program of its own: `preexec_fn` would run gRPC's fork handlers, which may write to the terminal.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class PtySession:
    def __init__(self, person: int, process: subprocess.Popen | Program):
        self.written = b""
        self.lines = [""]
        """What scrolled away and what is on the screen, down to the cursor's line."""
        self.process = process
        self._person = person
        self._screen = pyte.HistoryScreen(_WIDTH, _HEIGHT, history=1000)
        self._emulator = pyte.ByteStream(self._screen)

    @property
    def screen(self) -> str:
        """What is on the screen, below the cursor too."""
        return "\n".join(self._screen.display)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def type(self, keys: str) -> None:
        os.write(self._person, keys.encode())

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Waits until the lines are as wanted, and returns them."""
        deadline = time.monotonic() + _SECONDS
        while not seen(self.lines):
            assert time.monotonic() < deadline, self.text
            assert self._read(), f"the program has left:\n{self.text}"
        return self.lines

    def ask(self, keys: str, prompt: str = ">") -> str:
        """Types, and returns what was written up to the next prompt."""
        before = len(self.lines)
        self.type(keys)
        lines = self.until(lambda lines: len(lines) > before and lines[-1] == prompt)
        return "\n".join(lines[before - 1 : -1])

    def end(self) -> int:
        """The exit code, once the program exits."""
        while self._read():
            pass
        return self.process.wait(_SECONDS)

    def _read(self) -> bool:
        """Reads what was written since; returns whether more may come."""
        if not select.select([self._person], [], [], 0.05)[0]:
            return self.process.poll() is None
        try:
            written = os.read(self._person, 1 << 16)
        except OSError:
            return False
        self.written += written
        self._emulator.feed(written)
        gone = ["".join(row[column].data for column in range(_WIDTH)).rstrip() for row in self._screen.history.top]
        self.lines = gone + [line.rstrip() for line in self._screen.display[: self._screen.cursor.y + 1]]
        if _WHERE in written:
            self.type(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")
        return True


@contextmanager
def on_terminal(*arguments: str, **environment: str) -> Iterator[PtySession]:
    with _terminal(environment) as (person, program, given):
        process = subprocess.Popen(
            (sys.executable, "-S", "-c", _TAKE_TERMINAL, *arguments),
            stdin=program,
            stdout=program,
            stderr=program,
            start_new_session=True,
            env=given,
        )
        with _watched(person, program, process) as session:
            yield session


@contextmanager
def forked_on_terminal(name: str, *arguments: str, **environment: str) -> Iterator[PtySession]:
    """One of our programs, which need not import what it runs."""
    with _terminal(environment) as (person, program, given):
        process = _ForkedOnTerminal(program, name, arguments, given)
        with _watched(person, program, process) as session:
            yield session


@contextmanager
def _terminal(environment: dict[str, str]) -> Iterator[tuple[int, int, dict[str, str]]]:
    """The ends of a person and of a program, which closes it, and the program's environment."""
    person, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, _WIDTH, 0, 0))
    try:
        yield person, program, {**os.environ, "TERM": "xterm-256color", **environment}
    finally:
        os.close(person)


@contextmanager
def _watched(person: int, program: int, process: subprocess.Popen | Program) -> Iterator[PtySession]:
    os.close(program)
    try:
        yield PtySession(person, process)
    finally:
        process.kill()
        process.wait()


class _ForkedOnTerminal(Program):
    def __init__(self, terminal: int, name: str, arguments: Sequence[str], environment: dict[str, str]):
        self._process = FORKS.Process(
            target=_run_on_terminal, args=(_Passed(terminal), name, arguments, environment), daemon=True
        )
        self._process.start()


def _run_on_terminal(terminal: int, name: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    _run(name, arguments, [terminal, os.dup(terminal), os.dup(terminal)], environment)
