"""The processes of this machine as /proc shows them, for tests of what is left behind. Linux only."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_PATIENCE_S = 10.0

WITHOUT_PRIVILEGE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Before a command: takes root's capabilities away from it."""

can_drop_privilege = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs root and setpriv, to take privilege away",
)


def commands() -> list[str]:
    """The command lines of all processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def is_running(command: str) -> bool:
    """Whether it occurs in any command line."""
    return any(command in line for line in commands())


def runs_itself(command: str) -> bool:
    """Whether a process is this command, and not one that has it among its arguments."""
    return any(line.strip() == command for line in commands())


def namespaces_held_by(process: int) -> set[str]:
    """The network namespaces that a process lives in or holds open, beside our own."""
    return _network_links(Path("/proc") / str(process)) - _network_links(Path("/proc/self"))


def namespace_is_held(namespace: str) -> bool:
    return any(namespace in _network_links(process) for process in Path("/proc").glob("[0-9]*"))


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether it does so in time."""
    give_up = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _network_links(process: Path) -> set[str]:
    links = set()
    for path in (*process.glob("task/*/ns/net"), *process.glob("fd/*")):
        with contextlib.suppress(OSError):
            target = str(path.readlink())
            if target.startswith("net:"):
                links.add(target)
    return links
