"""The use of bundles: one small file for each tells from which server it was used last, and when. A process that uses
a bundle holds a shared lock on its file, so that nobody removes the bundle meanwhile.

Knows neither what a bundle holds nor who uses it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from client.errors import BundleError

_FOLDER = "uses"


class InUseError(Exception):
    """A running process uses the bundle."""


@dataclass(frozen=True, slots=True)
class LastUse:
    """`at` is in seconds since 1970."""

    server: str
    at: float


@contextmanager
def in_use(cache: Path, bundle: str, server: str) -> Iterator[None]:
    """The bundle of that id is used with the server at that address, until the block ends or the process does. Where
    the cache cannot be written, or knows no locks, nothing is noted.

    Raises BundleError if another process is removing the bundle.
    """
    descriptor = None
    try:
        with suppress(OSError):
            descriptor = _open(cache, bundle)
            _note(descriptor, server)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _note(descriptor: int, server: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a wait would stop the event loop
    except BlockingIOError as error:
        raise BundleError("the bundle is being removed by another `outrider`; run the command again") from error
    note = server.encode()
    os.pwrite(descriptor, note, 0)
    os.ftruncate(descriptor, len(note))


@contextmanager
def unused(cache: Path, bundle: str) -> Iterator[None]:
    """No process begins to use the bundle until the block ends; then nothing is known of its use any more.

    Raises InUseError if one uses it now, and OSError.
    """
    descriptor = _open(cache, bundle)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUseError from error
        yield
        _file(cache, bundle).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def last_use(cache: Path, bundle: str) -> LastUse | None:
    """None for a bundle that was never used, only fetched."""
    file = _file(cache, bundle)
    try:
        server = file.read_text(encoding="utf-8")
        return LastUse(server, file.stat().st_mtime) if server else None  # empty: opened to be locked
    except (OSError, ValueError):
        return None


def _open(cache: Path, bundle: str) -> int:
    file = _file(cache, bundle)
    file.parent.mkdir(parents=True, exist_ok=True)
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)


def _file(cache: Path, bundle: str) -> Path:
    return cache / _FOLDER / bundle
