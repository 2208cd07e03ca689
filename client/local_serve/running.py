"""Finds the running `outrider serve` of this user: each writes a small file beside the bundles when it is ready.

No other user may be able to write there, or to listen in its place: folder, files and sockets that do not belong to
this user alone are ignored. Imports the standard library alone. It may not know requests.
"""

import json
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

FORMAT = 4
"""The version of the messages on the socket, and of the file."""

_FOLDER = "serving"
_LONGEST_SOCKET_PATH_BYTES = 100  # the system's limit is 104 or 108
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Running:
    """`version` is the program's and `server` the address of the server that it asks, as text."""

    pid: int
    version: str
    server: str
    socket: str


class UnsafeError(Exception):
    """Other users could have written the file that names the socket."""


def own_version() -> str:
    return f"{version('outrider')} {FORMAT}"


def can_listen() -> bool:
    """Whether this system has Unix sockets and users."""
    return hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")


def prepare_socket(cache: Path, pid: int) -> Path:
    """Where to listen: in a folder that is this user's alone. Raises OSError or UnsafeError if there is none."""
    folder = cache / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_own(folder)
    path = folder / f"{pid}.sock"
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH_BYTES:
        path = Path(tempfile.mkdtemp(prefix="outrider-")) / "sock"
    path.unlink(missing_ok=True)
    return path


def announce(cache: Path, running: Running) -> Path:
    """Writes the file that says where it listens. Raises OSError."""
    file = cache / _FOLDER / f"{running.pid}.json"
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as output:
        json.dump(asdict(running), output)
    part.replace(file)
    return file


def withdraw(cache: Path, running: Running) -> None:
    """Takes back what `prepare_socket` and `announce` made."""
    path = Path(running.socket)
    for file in (cache / _FOLDER / f"{running.pid}.json", path):
        with suppress(OSError):
            file.unlink()
    if path.parent != cache / _FOLDER:
        with suppress(OSError):
            path.parent.rmdir()


def find_running(cache: Path) -> list[Running]:
    """Those whose files are there, the newest first. Raises UnsafeError if others could have written
    the files."""
    folder = cache / _FOLDER
    if not can_listen() or not folder.is_dir():
        return []
    _check_own(folder)
    found = sorted(_read(folder), key=lambda each: each[0], reverse=True)
    return [running for _, running in found]


def connected(running: Running, seconds: float) -> socket.socket | None:
    """A connection to it; None if no process of this user listens any more."""
    path = Path(running.socket)
    try:
        _check_own(path.parent)
        if not stat.S_ISSOCK(_check_own(path).st_mode):
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except (OSError, UnsafeError):
        return None
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
        if is_own(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def is_own(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user, if the system can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


def _read(folder: Path) -> Iterator[tuple[float, Running]]:
    for file in folder.glob("*.json"):
        try:
            info = _check_own(file)
            running = Running(**json.loads(file.read_text(encoding="utf-8")))
            if not (type(running.pid) is int and all(type(each) is str for each in (running.server, running.socket))):
                continue
            os.kill(running.pid, 0)
        except PermissionError:  # another user's process has the number now
            continue
        except (OSError, ValueError, TypeError, OverflowError, UnsafeError):
            continue
        yield info.st_mtime, running


def _check_own(path: Path) -> os.stat_result:
    """Raises UnsafeError for what others may write or have made, OSError if there is nothing."""
    info = path.lstat()
    if info.st_uid != os.getuid() or stat.S_ISLNK(info.st_mode) or info.st_mode & _OTHERS:
        raise UnsafeError(f"{path} is open to other users of this machine")
    return info
