"""The use of a bundle is noted where that is possible, and is no obstacle where it is not."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from client.cache.uses import in_use, last_use, unused


@pytest.mark.parametrize(("module", "call"), [(os, "pwrite"), (os, "ftruncate"), (fcntl, "flock")])
def test_a_note_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, call, fail)
    with in_use(tmp_path, "bundle", "there"):
        pass


def test_an_error_of_the_block_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), in_use(tmp_path, "bundle", "there"):
        raise OSError("mine")
    last = last_use(tmp_path, "bundle")
    assert last is not None
    assert last.server == "there"


def test_nobody_waits_for_a_removal(tmp_path: Path) -> None:
    """An event loop would stand still meanwhile."""
    with unused(tmp_path, "bundle"), in_use(tmp_path, "bundle", "there"):
        assert (tmp_path / "uses" / "bundle").read_text() == ""
