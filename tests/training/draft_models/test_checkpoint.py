"""What is stored of a run: compared by name, known by its version, and whole where the disk is full."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from common.protocol.errors import MisuseError, OutriderError
from training.draft_models.checkpoint import RunProgress, WorkFolder

SETTINGS = {"seed": 7, "options": {"heads": "4", "form": "ours"}, "held out": ("a", "b")}
FULL = r"^\S+ cannot be written: File too large; make room, and "
CONTINUES = FULL + "the same command with --resume continues$"


@pytest.fixture
def folder(tmp_path: Path) -> WorkFolder:
    return WorkFolder(tmp_path / "draft")


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """As on a full disk, no file may grow beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_settings_are_compared_by_name(folder: WorkFolder) -> None:
    assert folder.stored(SETTINGS) is None
    folder.store({**SETTINGS, "planned": 3})
    assert (folder.stored(SETTINGS) or {})["planned"] == 3
    with pytest.raises(MisuseError, match=r"has other settings \(heads: 4, now 5; new: None, now 1\): pass the same"):
        folder.stored({**SETTINGS, "options": {"heads": "5", "form": "ours", "new": "1"}})


@pytest.mark.parametrize("version", [{}, {"version": 1}, {"version": 99}])
def test_a_run_of_another_version_is_told_from_a_broken_one(folder: WorkFolder, version: dict[str, int]) -> None:
    folder.store(SETTINGS)
    stored = json.loads(folder.settings.read_text())
    del stored["version"]
    folder.settings.write_text(json.dumps({**stored, **version}))
    with pytest.raises(MisuseError, match=r"^another version of Outrider began the run in [^\n]+$"):
        folder.stored(SETTINGS)
    for broken in ("{", "[]", "null"):
        folder.settings.write_text(broken)
        with pytest.raises(MisuseError, match=r"settings\.json is broken: remove"):
            folder.stored(SETTINGS)


def test_a_full_disk_is_one_sentence_and_the_checkpoint_before_stays(folder: WorkFolder) -> None:
    module = nn.Linear(300, 300)
    optimizer = torch.optim.AdamW(module.parameters())
    folder.save(module, optimizer, RunProgress(step=1))
    with largest_file(100_000), pytest.raises(OutriderError, match=CONTINUES):
        folder.save(module, optimizer, RunProgress(step=2))
    assert [path.name for path in folder.path.iterdir()] == ["checkpoint.pt"]
    assert folder.restore(module, optimizer, torch.device("cpu")).step == 1


def test_a_full_disk_keeps_settings_and_log(folder: WorkFolder) -> None:
    folder.store(SETTINGS)
    folder.write_log({"step": 1})
    folder.write_log({"step": 2})
    with largest_file(10):
        with pytest.raises(OutriderError, match=FULL + "start again$"):
            folder.store(SETTINGS)
        for write in (lambda: folder.write_log({"step": 3}), lambda: folder.rewind_log(1)):
            with pytest.raises(OutriderError, match=CONTINUES):
                write()
    assert folder.stored(SETTINGS) is not None
    folder.rewind_log(1)
    assert folder.log.read_text() == '{"step": 1}\n'
