"""A server of a store, Redis or Valkey, on a free port of this machine; it forgets everything when it ends.

Knows nothing of what is kept in it.
"""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from subprocess import DEVNULL, Popen

from client.errors import DemoError
from netem.links.sockets import free_port

_PROGRAMS = ("valkey-server", "redis-server")


class LocalStore:
    def __init__(self, folder: Path):
        """Raises DemoError if no such program is installed."""
        self._program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        if self._program is None:
            raise DemoError(f"neither {' nor '.join(_PROGRAMS)} is installed; Debian has packages of these names")
        self._folder = folder
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.begin()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def begin(self) -> None:
        """Returns once it listens. Raises DemoError if it ends before."""
        options = ("--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = Popen((str(self._program), *options, "--dir", str(self._folder)), stdout=DEVNULL)
        while self.is_running:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.02)
        raise DemoError(f"{self._program} ended at once")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It answers nothing meanwhile, and executes afterwards what it was told."""
        self._process.send_signal(SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(SIGCONT)

    def end(self) -> None:
        """As a crash would."""
        self._process.kill()
        self._process.wait()
