import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from common.models.errors import CheckpointError
from common.models.fingerprint import fingerprint

Checkpoint = Callable[..., Path]


@pytest.fixture
def copy(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """A checkpoint that a test may change."""
    return Path(shutil.copytree(checkpoint("llama"), tmp_path / "copy"))


def test_it_is_64_hex_digits(checkpoint: Checkpoint) -> None:
    assert len(bytes.fromhex(fingerprint(checkpoint("llama")))) == 32


def test_sharding_and_metadata_do_not_change_it(checkpoint: Checkpoint, copy: Path) -> None:
    assert fingerprint(checkpoint("llama", sharded=True)) == fingerprint(checkpoint("llama"))
    save_file(load_file(copy / "model.safetensors"), copy / "model.safetensors", metadata={"format": "np"})
    assert fingerprint(copy) == fingerprint(checkpoint("llama"))


def test_provenance_in_the_configuration_does_not_change_it(checkpoint: Checkpoint, copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(
        json.dumps(config | {"transformers_version": "0", "_name_or_path": "elsewhere", "torch_dtype": "bfloat16"})
    )
    assert fingerprint(copy) == fingerprint(checkpoint("llama"))


def test_one_weight_changes_it(checkpoint: Checkpoint, copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    tensors["model.layers.2.mlp.up_proj.weight"][0, 7] += 1e-9
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    assert fingerprint(copy) != fingerprint(checkpoint("llama"))


def test_another_seed_vocabulary_or_setting_changes_it(checkpoint: Checkpoint, copy: Path) -> None:
    original = fingerprint(copy)
    assert fingerprint(checkpoint("llama", seed=1)) != original
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}))
    changed = fingerprint(copy)
    assert changed != original
    (copy / "tokenizer.json").write_text((copy / "tokenizer.json").read_text() + " ")
    assert fingerprint(copy) not in {original, changed}


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_weights_cut_short_are_refused(keep: int, copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="is not a whole safetensors file"):
        fingerprint(copy)


def test_a_header_of_nonsense_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="is not a whole safetensors file"):
        fingerprint(copy)


def test_what_is_missing_is_named(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="has no tokenizer"):
        fingerprint(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has no weights"):
        fingerprint(copy)
