"""A real `outriderd` as a process of its own, for tests of the whole path."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, PIPE, Popen

from tests.programs import Program

READY = "ready on "


def stated_bytes(said: str) -> float:
    """What clients without a session can make a server hold, from what it says before it is ready."""
    stated = re.search(r"([\d.]+) GB for clients without one", said)
    assert stated, said
    return float(stated[1]) * 1e9


@contextmanager
def outriderd(*arguments: str) -> Iterator[tuple[Program, str]]:
    """The process and its HOST:PORT; it is killed at the end in any case."""
    with outriderd_saying(*arguments) as (process, address, _):
        yield process, address


@contextmanager
def outriderd_saying(*arguments: str) -> Iterator[tuple[Program, str, str]]:
    """The same, with what it says before it is ready."""
    process = Program("outriderd", "serve", "--listen", "127.0.0.1:0", *arguments, stdout=DEVNULL, stderr=PIPE)
    with _begun(process) as (address, said):
        yield process, address, said


@contextmanager
def ready(process: "Program | Popen[str]") -> Iterator[str]:
    """The HOST:PORT from a program's `ready` line; the program is killed at the end."""
    with _begun(process) as (address, _):
        yield address


@contextmanager
def _begun(process: "Program | Popen[str]") -> Iterator[tuple[str, str]]:
    assert process.stderr is not None
    try:
        said = []
        for line in iter(process.stderr.readline, ""):
            if line.startswith(READY):
                break
            said.append(line)
        else:
            raise AssertionError(f"it did not start: {said}")
        yield line.removeprefix(READY).strip(), "".join(said)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
