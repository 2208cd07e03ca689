"""`outrider` in processes that are forked from one that has imported torch and nothing of ours: what else a command
imports is told as by a process of its own, which would take longer over torch than over all the rest.

Unlike `tests.programs`, whose programs begin with all that they might import.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TextIO

TELLING = """
import atexit, signal, sys

def tell(*_):
    with open(place + ".part", "w") as file:
        file.write(" ".join(sys.modules))
    __import__("os").rename(place + ".part", place)

place = sys.argv.pop(1)
atexit.register(tell)
signal.signal(signal.SIGUSR1, tell)
sys.argv[0] = "outrider"
from client.cli import main
main()
"""
"""A command that writes the modules it has imported to its first argument, at its end and on SIGUSR1."""

_FORKING = """
import json, os, socket, sys
import torch

asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    words, streams, *_ = socket.recv_fds(asked, 1 << 16, 3)
    if not words:
        sys.exit()
    child = os.fork()
    if not child:
        break
    for stream in streams:
        os.close(stream)
    asked.send(b"pid %d" % child)
    asked.send(b"code %d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
asked.close()
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
sys.argv = ["", *json.loads(words)]
"""


class ForkedCommand:
    """As much of `subprocess.Popen` as tests need."""

    def __init__(self, pid: int, stderr: TextIO, asked: socket.socket):
        self.pid, self.stderr, self._asked = pid, stderr, asked
        self._code: int | None = None

    def wait(self) -> int:
        if self._code is None:
            self._code = _number(self._asked, "code")
        return self._code

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self._code is None:
            self.send_signal(signal.SIGKILL)


class ForkedCommands:
    """Starts one after another: the next one when the last one was waited for."""

    def __init__(self, asked: socket.socket):
        self._asked = asked

    def start(self, told: Path, *arguments: str, stdin: Path = Path(os.devnull), stdout: Path) -> ForkedCommand:
        """`told` gets the names of the modules."""
        read, write = os.pipe()
        with open(stdin) as typed, open(stdout, "w") as written:
            streams = [typed.fileno(), written.fileno(), write]
            socket.send_fds(self._asked, [json.dumps([str(told), *arguments]).encode()], streams)
            pid = _number(self._asked, "pid")
        os.close(write)
        return ForkedCommand(pid, open(read, encoding="utf-8"), self._asked)


def _number(asked: socket.socket, kind: str) -> int:
    """The next that is told, which must be of this kind: an exit code is never killed as a process."""
    told, number = asked.recv(64).split()
    assert told == kind.encode()
    return int(number)


@contextmanager
def forked_commands() -> Iterator[ForkedCommands]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            code = [sys.executable, "-c", _FORKING + TELLING, str(theirs.fileno())]
            process = Popen(code, stdin=DEVNULL, stdout=DEVNULL, pass_fds=[theirs.fileno()])
        yield ForkedCommands(ours)
    process.wait()
