"""A real `outriderd` as a process of its own, for tests that need the whole road."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "ready on "


def command(name: str) -> str:
    program = shutil.which(name, path=Path(sys.executable).parent)
    assert program is not None, f"{name} is not installed"
    return program


@contextmanager
def outriderd(*arguments: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """The process and its HOST:PORT; killed at the end, whatever became of it."""
    process = subprocess.Popen(
        [command("outriderd"), "serve", "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = []
        for line in iter(process.stderr.readline, ""):
            said.append(line)
            if line.startswith(READY):
                break
        else:
            raise AssertionError(f"outriderd did not start: {said}")
        yield process, line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
