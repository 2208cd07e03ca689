"""Noting the use of a bundle never ends a command, and never waits."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from client.cache.uses import in_use, last_use, unused
from client.errors import BundleError


@pytest.mark.parametrize("call", ["os.pwrite", "os.ftruncate", "os.open", "fcntl.flock"])
def test_what_cannot_be_noted_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A full disk, and a file system without locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    module, name = call.split(".")
    monkeypatch.setattr({"os": os, "fcntl": fcntl}[module], name, refuse)
    used = False
    with in_use(tmp_path, "b", "there"):
        used = True
    assert used


def test_an_error_of_the_user_is_not_taken_for_one_of_the_note(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), in_use(tmp_path, "b", "there"):
        raise OSError("mine")
    assert last_use(tmp_path, "b") is not None


def test_a_bundle_that_is_being_removed_is_not_waited_for(tmp_path: Path) -> None:
    with (
        unused(tmp_path, "b"),
        pytest.raises(BundleError, match="is being removed by another `outrider`"),
        in_use(tmp_path, "b", "there"),
    ):
        pytest.fail("it is used")
