"""Atomic writes: files and folders get their name once they are whole and on the disk. And what a killed process left.

They grow under a name of their own, which no two processes share: those of containers have the same ids. While they
grow they are locked, so that whoever makes the same one later can remove what nobody is writing any more. It may not
know what they hold.
"""

import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

_RANDOM_BYTES = 8
_RANDOM = "[0-9a-f]" * 2 * _RANDOM_BYTES
"""As a pattern of file names."""


@contextmanager
def atomic_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open for writing; it takes the place of `path` when the block ends, unless that raises. `mode`: its permissions,
    less the umask. Raises OSError."""
    with _growing(path, partial(Path.touch, mode=mode)) as part:
        with part.open("wb") as file:
            yield file
        put_in_place(part, path)


def put_in_place(part: Path, path: Path) -> None:
    """Gives a file that is whole its name, once it is on the disk. Raises OSError."""
    _sync(part)
    part.replace(path)
    _sync_folder(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it is named `path` when the block ends, unless that raises. Raises OSError, also where there is
    a folder of that name by then."""
    with _growing(path, Path.mkdir) as part:
        yield part
        put_on_disk(part)
        part.rename(path)
        _sync_folder(path.parent)


def put_on_disk(folder: Path) -> None:
    """Returns once all that is in it would outlast a loss of power. Raises OSError."""
    for each in (folder, *folder.rglob("*")):
        (_sync_folder if each.is_dir() else _sync)(each)


@contextmanager
def removed_unless_whole(folder: Path) -> Iterator[None]:
    """For a folder that cannot get its name at the end, because its user may have made it: where the block raises all
    that is in it is gone, and the folder unless it was there before, so that the same command can be given again."""
    was_there = folder.exists()
    try:
        yield
    except BaseException:
        for each in folder.glob("*"):
            with suppress(OSError):  # it stays, and the fault is told
                _remove(each)
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, which is gone when the block ends; where the process was killed before, when the
    next one of that `path` is made. Raises OSError."""
    with _growing(path, Path.mkdir) as part:
        yield part


def remove_abandoned(path: Path) -> None:
    """Removes what killed processes left that were to make `path`."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{_RANDOM}.part"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(left)
            finally:
                os.close(descriptor)


@contextmanager
def _growing(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    remove_abandoned(path)
    part, descriptor = _made_and_locked(path, make)
    try:
        yield part
    finally:
        with suppress(OSError):  # it has its name by now, or there is nothing to do about it
            _remove(part)
        os.close(descriptor)


def _made_and_locked(path: Path, make: Callable[[Path], object]) -> tuple[Path, int]:
    while True:
        part = path.with_name(f"{path.name}.{secrets.token_hex(_RANDOM_BYTES)}.part")
        make(part)
        with suppress(FileNotFoundError):  # another process has removed it before it was locked
            descriptor = os.open(part, os.O_RDONLY)
            with suppress(OSError):  # some file systems know no locks; there nothing is removed either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if part.exists():
                return part, descriptor
            os.close(descriptor)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    with suppress(OSError):  # some file systems cannot
        _sync(path)
