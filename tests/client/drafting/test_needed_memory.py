"""Weights that do not fit into memory are refused before they are loaded, with the number."""

from pathlib import Path

import pytest

from client.drafting import needed_memory
from client.drafting.draft_loader import DraftChoice, DraftLoader
from client.drafting.needed_memory import bundle_headers
from common.bundle import TAIL_FOLDER, describe_file, make_manifest
from common.counted import format_bytes
from common.draft_models.memory import needed_bytes
from common.draft_models.tail import write_tail
from common.drafters import load
from common.models.errors import CheckpointError
from common.weight_only.modes import AS_IS, INT8
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = make_checkpoint(tmp_path_factory.mktemp("target"), "llama")
    directory = make_moa_draft(tmp_path_factory.mktemp("models") / "moa", target, (0, 1))
    write_tail(target, 1, directory / TAIL_FOLDER)
    return directory


@pytest.mark.parametrize("weights", [AS_IS, INT8])
def test_too_little_is_told_before_loading(bundle: Path, monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    monkeypatch.setattr(needed_memory, "free_memory_bytes", lambda _: 2000)
    monkeypatch.setattr(load, "load_draft_model", lambda *_: pytest.fail("it was loaded"))
    paths = ("config.json", "model.safetensors", f"{TAIL_FOLDER}/config.json", f"{TAIL_FOLDER}/model.safetensors")
    manifest = make_manifest("moa", "moa", "f", [describe_file(path, bundle / path) for path in paths])
    loader = DraftLoader(bundle, manifest, DraftChoice(weights=weights), 400, 300, 0.05)
    with pytest.raises(CheckpointError) as refused:
        loader.load()
    assert f"of memory for its weights ({weights}), and 2.0 kB are free" in str(refused.value)
    if weights == AS_IS:
        needed = format_bytes(needed_bytes(bundle_headers(bundle), "moa", 0, AS_IS, 4))
        assert f"the draft model 'moa' needs {needed} of memory" in str(refused.value)


@pytest.mark.parametrize("free", [0, 10**12])
def test_enough_or_unknown_memory_is_no_obstacle(bundle: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(needed_memory, "free_memory_bytes", lambda _: free)
    loader = DraftLoader(bundle, make_manifest("moa", "moa", "f", []), DraftChoice(), 400, 300, 0.05)
    assert loader.load()().kind == "moa"
