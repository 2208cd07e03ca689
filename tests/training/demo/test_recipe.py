"""The recipe's own decisions: where a run begins, and which folders it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.protocol.errors import MisuseError
from training import cli
from training.demo import recipe
from training.demo.architecture import Shape, new_model
from training.demo.batching import CorpusBatches
from training.demo.corpus import Corpus, sample_texts
from training.demo.public_data import SOURCES
from training.demo.recipe import DemoSettings, RecipeError, Watcher, checksums, open_work, train_target
from training.demo.shipping import load_model, save_model
from training.demo.tokenizer import train_tokenizer
from training.demo.training_loop import TargetLoopSettings

TINY = Shape(layers=1, hidden=16, intermediate=32, heads=2, key_value_heads=1, head=8)
SILENT = Watcher(lambda stage: None, lambda progress, budget: None)


def test_a_warm_start_begins_with_the_given_weights_and_keeps_their_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "compile_layers", lambda model: None)
    tokenizer = train_tokenizer(sample_texts(Corpus(0), 300), 512)
    given = new_model(TINY, tokenizer, seed=11)
    save_model(given, tokenizer, tmp_path / "given")
    (tmp_path / "given" / "README.md").write_text(
        "# A model\n\n## Recipe\n\nMade by hand.\n\n## Measured\n\nNothing.\n"
    )
    feed = CorpusBatches(Corpus(3), tokenizer)
    nothing = TargetLoopSettings(tokens=0)
    saved = {}
    for name, start in (("warm", tmp_path / "given"), ("cold", None)):
        work = open_work(tmp_path / name, DemoSettings(3, 1, False, warm=start is not None), resume=False)
        trained = train_target(TINY, feed, nothing, work, tmp_path / name, SILENT, start)
        assert trained.earlier == ("Made by hand." if start else "")
        saved[name] = load_model(tmp_path / name / "target")[0]
    rounded = [parameter.to(torch.bfloat16).float() for parameter in given.parameters()]
    assert all(map(torch.equal, saved["warm"].parameters(), rounded))
    assert not all(map(torch.equal, saved["cold"].parameters(), rounded))


def test_trained_weights_get_the_lower_rates() -> None:
    warm, cold = (DemoSettings(1, 2, False, warm=warm).loop() for warm in (True, False))
    assert warm.tokens == cold.tokens == 2
    assert warm.matrix_rate < cold.matrix_rate
    assert warm.vector_rate < cold.vector_rate


def test_a_warm_run_is_not_resumed_as_a_cold_one_but_any_may_be_longer(tmp_path: Path) -> None:
    open_work(tmp_path, DemoSettings(1, 2, False, warm=True), resume=False)
    with pytest.raises(RecipeError, match="other settings"):
        open_work(tmp_path, DemoSettings(1, 2, False, warm=False), resume=True)
    assert open_work(tmp_path, DemoSettings(1, 3, False, warm=True), resume=True).checkpoint.parent.is_dir()


def test_what_a_run_reads_may_not_change(tmp_path: Path) -> None:
    data, warm = tmp_path / "data", tmp_path / "warm"
    for path in (*(data / source.file for source in SOURCES), warm / "model.safetensors", warm / "tokenizer.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    begun = DemoSettings(1, 2, True, warm=True, files=checksums(data, warm))
    open_work(tmp_path, begun, resume=False)
    open_work(tmp_path, replace(begun, tokens=3, files=checksums(data, warm)), resume=True)
    for path in (data / SOURCES[0].file, warm / "model.safetensors", warm / "tokenizer.json"):
        path.write_text("other")
        with pytest.raises(RecipeError, match="was started with other settings"):
            open_work(tmp_path, replace(begun, files=checksums(data, warm)), resume=True)
        path.write_text("one")
    assert checksums(None, None) == {}


def test_a_run_of_another_version_is_told_from_a_broken_one(tmp_path: Path) -> None:
    settings = DemoSettings(1, 2, False)
    work = open_work(tmp_path, settings, resume=False)
    for stored, said in (('{"seed": 1}', "another version"), ("[]", "another version"), ("{", "is broken")):
        work.settings.write_text(stored)
        with pytest.raises(RecipeError, match=said):
            open_work(tmp_path, settings, resume=True)


def test_a_missing_card_has_no_recipe(tmp_path: Path) -> None:
    assert recipe.read_card(tmp_path) == ""
    assert "does not say" in recipe.recipe_of("")


def test_a_folder_without_weights_is_refused_as_a_start(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"holds no model\.safetensors"):
        cli.demo(out=tmp_path / "out", tokens=1.0, warm_start=tmp_path)
