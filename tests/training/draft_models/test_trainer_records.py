"""What a run keeps of its data, and data that does not fit its target."""

from __future__ import annotations

import io
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from common.models.checkpoint import load_tokenizer
from common.protocol.errors import MisuseError
from tests.training.draft_models.fake_recipe import FakeRecipe, make_inputs
from training.draft_models import trainer
from training.draft_models.recipe import Batch, Features, LossParts, Moment
from training.draft_models.records import Record, read_records
from training.draft_models.trainer import TrainSettings, train_draft
from training.progress import TrainingBar


@pytest.fixture
def settings(tmp_path: Path) -> TrainSettings:
    target, data = make_inputs(tmp_path)
    return TrainSettings(str(target), (data,), tmp_path / "draft", steps=2, batch_tokens=256, device="cpu")


def test_records_are_released_before_training(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[weakref.ref[Record]] = []
    held: list[int] = []

    def reading(files: Sequence[Path], answers_needed: bool = True) -> list[Record]:
        records = read_records(files, answers_needed)
        read.extend(map(weakref.ref, records))
        return records

    class Watching(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            held.append(sum(each() is not None for each in read))
            return super().loss(batch, features, moment)

    monkeypatch.setattr(trainer, "read_records", reading)
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_bytes(settings.data[0].read_bytes() + b"\n")
    with TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(replace(settings, held_out=held_out), Watching, bar)
    assert len(read) == 160
    assert set(held) == {0}


@pytest.mark.parametrize("options", [{}, {"regenerate": True}, {"held_out": Path("more.jsonl")}])
def test_data_of_tokens_that_the_target_does_not_have_is_refused(
    settings: TrainSettings, tmp_path: Path, options: dict[str, Any]
) -> None:
    tokenizer: Any = load_tokenizer(settings.target)
    tokenizer.add_tokens([f"<{number}>" for number in range(300)])
    tokenizer.save_pretrained(settings.target)
    data = tmp_path / "more.jsonl"
    files = {"held_out": data} if "held_out" in options else {"data": (data,)}
    data.write_text('{"text": "a story"}\n{"instruction": "what is <299>?", "output": "a token"}')
    with (
        torch.random.fork_rng(),
        TrainingBar(Console(file=io.StringIO())) as bar,
        pytest.raises(MisuseError, match=r"^[^\n]*more\.jsonl, line 2: .*'<299>'[^\n]*$"),
    ):
        train_draft(replace(settings, **{**options, **files}), FakeRecipe, bar)
