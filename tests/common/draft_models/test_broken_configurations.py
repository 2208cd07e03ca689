"""Configurations of draft models that a broken directory may hold: each is one error, and takes no time."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from common.draft_kinds import DRAFT_KINDS
from common.draft_models.directory import read_draft_depths, read_draft_kind
from common.models.errors import CheckpointError
from common.models.shipped import FAMILIES
from common.models.source import SHARD_INDEX, weight_files
from server.models.draft_models import network_of

DEMO = FAMILIES["demo"].folder


def broken_draft(folder: Path, name: str, change: dict[str, Any]) -> Path:
    """The demo's draft of this name with another configuration."""
    shutil.copytree(DEMO / name, folder / name)
    config = folder / name / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    return folder / name


def layer_of(name: str) -> dict[str, Any]:
    return dict(json.loads((DEMO / name / "config.json").read_text())["layer"])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("glide", {"layer": layer_of("glide") | {"kv_heads": None}}),
        ("glide", {"layer": layer_of("glide") | {"rope_base": "x"}}),
        ("tandem", {"layer": layer_of("tandem") | {"head_dim": "a"}}),
        ("tandem", {"layer": layer_of("tandem") | {"heads": 0}}),
        ("hydra", {"heads": 10_000_000}),
        ("hydra", {"blocks": 10_000_000}),
        ("medusa", {"blocks": 10_000_000}),
        ("clover", {"heads": 10_000_000}),
    ],
)
def test_impossible_sizes_are_refused(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    directory = broken_draft(tmp_path, name, change)
    with pytest.raises(CheckpointError):
        network_of(DRAFT_KINDS[name]).read_facts(directory)


@pytest.mark.parametrize("depths", ["abc", 5, [None]])
def test_depths_that_are_none_are_refused(depths: object, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="broken 'depths'"):
        read_draft_depths(broken_draft(tmp_path, "moa", {"depths": depths}))


def test_architectures_that_are_no_list_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": 5}))
    shutil.copy(DEMO / "independent" / "model.safetensors", tmp_path)
    assert read_draft_kind(tmp_path).name == "independent"


@pytest.mark.parametrize("shard", [["a"], 5, None])
def test_a_shard_whose_name_is_none_is_missing(shard: object, tmp_path: Path) -> None:
    (tmp_path / SHARD_INDEX).write_text(json.dumps({"weight_map": {"a": shard, "b": "b.safetensors"}}))
    with pytest.raises(CheckpointError, match="lacks"):
        weight_files(tmp_path)
