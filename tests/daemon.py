"""A real `outriderd` as a process of its own, for tests of the whole path."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, PIPE, Popen

from tests.programs import Program

READY = "ready on "


def stated_bytes(said: str) -> float:
    """What clients without a session can make a server hold, from its output after `ready`."""
    stated = re.search(r"at most ([\d.]+) GB for \d+ connections and \d+ calls of no session", said)
    assert stated, said
    return float(stated[1]) * 1e9


@contextmanager
def outriderd(*arguments: str) -> Iterator[tuple[Program, str]]:
    """The process and its HOST:PORT; it is killed at the end in any case."""
    process = Program("outriderd", "serve", "--listen", "127.0.0.1:0", *arguments, stdout=DEVNULL, stderr=PIPE)
    with ready(process) as address:
        yield process, address


@contextmanager
def ready(process: "Program | Popen[str]") -> Iterator[str]:
    """The HOST:PORT from a program's `ready` line; the program is killed at the end."""
    assert process.stderr is not None
    try:
        said = []
        for line in iter(process.stderr.readline, ""):
            said.append(line)
            if line.startswith(READY):
                break
        else:
            raise AssertionError(f"it did not start: {said}")
        yield line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
