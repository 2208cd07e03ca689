"""The names of what is shipped stand for its directories."""

from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from common.models.shipped import FAMILIES, draft_checkpoint

MOA = str(FAMILIES["demo"].folder / "moa")


def test_a_shipped_draft_goes_by_its_name_beside_its_target():
    assert draft_checkpoint("moa", ["demo"]) == draft_checkpoint("moa", ["other", "demo"]) == MOA
    assert draft_checkpoint("moa", ["other"]) == draft_checkpoint("moa", []) == "moa"


def test_directories_and_hub_ids_are_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "moa").mkdir()
    monkeypatch.chdir(tmp_path)
    for draft in ("moa", "acme/moa", str(tmp_path)):
        assert draft_checkpoint(draft, ["demo"]) == draft
    assert draft_checkpoint("gpt2", ["demo", "other"]) == "gpt2"


def test_a_name_of_none_is_told_which_there_are():
    with pytest.raises(CheckpointError, match=r"'mao' is neither a directory nor .*; those are moa, .*independent"):
        draft_checkpoint("mao", ["demo"])
