"""Bundles on disk: written and verified."""

from pathlib import Path

import pytest

from common.bundle import (
    Bundle,
    TargetCard,
    describe_file,
    first_damaged,
    make_manifest,
    read_bundle_file,
    write_bundle_file,
)
from common.weight_only.modes import MODES

CARD = TargetCard("model", "f" * 64, 300, 2048, (0, 2))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    paths = ("tokenizer/tokenizer.json", "model.safetensors")
    files = [describe_file(path, tmp_path / path) for path in paths]
    write_bundle_file(tmp_path, Bundle(make_manifest("draft", "independent", CARD.fingerprint, files), CARD))
    return tmp_path


def test_what_was_written_is_read(directory: Path) -> None:
    bundle = read_bundle_file(directory)
    assert bundle.target == CARD
    assert [file.path for file in bundle.manifest.files] == ["model.safetensors", "tokenizer/tokenizer.json"]
    assert first_damaged(directory, bundle.manifest) is None


@pytest.mark.parametrize("weights", MODES)
def test_the_weights_mode_is_read_back(tmp_path: Path, weights: str) -> None:
    bundle = Bundle(make_manifest("draft", "independent", CARD.fingerprint, (), weights), CARD)
    write_bundle_file(tmp_path, bundle)
    assert read_bundle_file(tmp_path) == bundle


def test_damage_is_found(directory: Path) -> None:
    manifest = read_bundle_file(directory).manifest
    (directory / "model.safetensors").write_bytes(bytes(999) + b"x")
    assert first_damaged(directory, manifest) == "model.safetensors"
    (directory / "model.safetensors").unlink()
    assert first_damaged(directory, manifest) == "model.safetensors"


def test_the_id_covers_what_the_bundle_is_for() -> None:
    assert make_manifest("a", "k", "f", ()).id != make_manifest("a", "k", "g", ()).id
