"""One replica: an `outriderd serve` as a child process, what it says, and the list of replicas that it reads.

Standard library and our addresses only, because it runs in a Ray actor on whichever machine has the devices. It may not
know Ray, nor what the fleet does next.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

from common.address import Address, parse_address
from common.programs import die_with_parent
from common.programs.configuration import without_settings

STORE_VARIABLE = "OUTRIDERD_FLEET_STORE"

_READY, _METRICS = "ready on ", "metrics on "
_SCRAPE_S = 5.0
_SILENT_S = 2.0
"""A page that fails after as long was waited for in vain: a port ends a connection whose page its event loop does not
fill."""

_LAST_WORDS_S = 10.0
"""What a server needs to end beyond the time for which it drains."""

_MOST_LINES = 1000

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy of the environment does not lead to this machine."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a replica. `arguments`: of `outriderd serve`, without what follows. `listen`: its own address.
    `advertised`: where clients dial it, None for where it listens. `environment`: what it gets beside its machine's.
    `folder`: relative paths in `arguments` begin there. `program`: `outriderd`, at the same place on every machine."""

    arguments: tuple[str, ...]
    listen: Address
    advertised: Address | None
    environment: Mapping[str, str]
    folder: str
    drain_s: float
    program: Path = Path(__file__).parents[1] / "cli.py"

    @property
    def has_store(self) -> bool:
        return STORE_VARIABLE in self.environment


@dataclass(frozen=True, slots=True)
class Heard:
    """What there is to know of a replica. `lines`: what it has written to stderr since the last time. `address`: where
    clients dial it, None before it serves. `code`: its exit code, negative for a signal, None while it runs."""

    lines: tuple[str, ...]
    address: Address | None
    code: int | None


class ReplicaProcess:
    """It ends when this process does, however it goes."""

    def __init__(self, launch: Launch, own_host: Callable[[], str] | None = None):
        """`own_host` tells this machine's address, for clients of a replica that listens on all of them."""
        self._launch = launch
        self._own_host = own_host
        self._folder = TemporaryDirectory(prefix="outriderd-replica-")
        self._list = Path(self._folder.name) / "replicas"
        self._write(())
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._address: Address | None = None
        self._page = ""
        self._kill_at_s: float | None = None
        self._process = subprocess.Popen(
            # -P: nothing is imported from where the operator happens to be.
            (sys.executable, "-P", "-m", die_with_parent.__name__, str(launch.program), "serve", *self._arguments()),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=launch.folder if os.path.isdir(launch.folder) else None,
            env=_environment(launch.environment),
            start_new_session=True,  # Ctrl-C in a terminal is the supervisor's
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def poll(self) -> Heard:
        """To be called again and again: a replica that does not end in time is killed here."""
        code = self._process.poll()
        if code is not None:
            self._reader.join(_SCRAPE_S)
        elif self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
            self._process.kill()
        lines = tuple(self._lines.popleft() for _ in range(len(self._lines)))
        return Heard(lines, self._address if self._page else None, code)

    def drain(self) -> None:
        """Asks it to end once its answers are done; asked again it ends at once."""
        if self._kill_at_s is None:
            self._kill_at_s = time.monotonic() + self._launch.drain_s + _LAST_WORDS_S
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, also where it does not listen to signals."""
        self._process.kill()

    def tell(self, addresses: Sequence[Address]) -> bool:
        """The replicas that it lists to clients from now on, if there is no store. Returns whether they could be
        written down. To be called by one caller, who waits for the answer."""
        try:
            self._write(addresses)
        except OSError:
            return False
        return True

    def page(self) -> str:
        """Its metrics. Raises as `read_page` does."""
        return read_page(self._page)

    def close(self) -> None:
        """Kills it if it runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join(_SCRAPE_S)
        self._folder.cleanup()

    def _write(self, addresses: Sequence[Address]) -> None:
        new = self._list.with_suffix(".new")
        new.write_text("".join(f"{address}\n" for address in addresses), encoding="utf-8")
        new.replace(self._list)

    def _arguments(self) -> tuple[str, ...]:
        launch = self._launch
        fixed = (*launch.arguments, "--listen", str(launch.listen), "--metrics", "127.0.0.1:0")
        if not launch.has_store:
            return (*fixed, "--fleet-list", str(self._list))
        advertised = launch.advertised or self._dialled(launch.listen)
        return fixed if advertised == launch.listen else (*fixed, "--advertise", str(advertised))

    def _dialled(self, listening: Address) -> Address:
        if listening == listening.dial_address or self._own_host is None:
            return listening
        return Address(self._own_host(), listening.port)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            if text.startswith(_READY):
                listening = parse_address(text.removeprefix(_READY))
                self._address = self._launch.advertised or self._dialled(listening)
            elif text.startswith(_METRICS):
                self._page = text.removeprefix(_METRICS)
            else:
                self._lines.append(text)


def read_page(url: str) -> str:
    """Raises TimeoutError where nobody fills the page, and OSError where it cannot be asked for now, as while others
    have all connections of its port."""
    began = time.monotonic()
    try:
        with _DIRECT.open(url, timeout=_SCRAPE_S) as answer:
            return str(answer.read().decode())
    except (OSError, HTTPException) as error:
        if time.monotonic() - began >= _SILENT_S:
            raise TimeoutError("the page was not filled in time") from error
        raise OSError("the page cannot be asked for now") from error


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """This machine's, without its own settings of `outriderd`: the fleet's hold."""
    kept = without_settings(os.environ, "outriderd")
    kept.pop("OMP_NUM_THREADS", None)  # Ray sets it for its workers, and a server chooses by itself
    return {**kept, **given}
