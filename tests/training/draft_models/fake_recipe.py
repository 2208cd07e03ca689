"""The smallest recipe: one linear layer that guesses the next token. Only what tests of the loop need may live here.

`run` trains that recipe, in whatever process a test calls it, so that tests can kill that.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import nn

from common.draft_models.measured_acceptance import LEVELS
from common.rounds import RoundsAnswer
from tests.families import make_checkpoint
from training.draft_models.features import FrozenTarget
from training.draft_models.recipe import (
    Batch,
    Evaluation,
    FeatureNeeds,
    Features,
    LossParts,
    Moment,
    RoundsSize,
    Tuning,
)
from training.draft_models.token_counts import TokenCounts
from training.draft_models.trainer import TrainSettings, train_draft
from training.progress import TrainingBar


class FakeRecipe:
    """`dropout` draws random numbers, `seen` counts steps and `counts` learned tokens, as real recipes may: all must
    survive a resumed run.

    In step `halts_in`, counted from 1, it waits to be killed; 0 for never."""

    kind = "fake"
    needs = FeatureNeeds(hidden=(0,))

    def __init__(self, target: FrozenTarget, halts_in: int = 0) -> None:
        self.tuning = Tuning(rate=1e-2, weight_decay=0.1)
        self.module = nn.Sequential(nn.Dropout(0.2), nn.Linear(target.config.hidden_size, target.config.vocab_size))
        self.module.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.counts = TokenCounts(target.config.vocab_size, 1, target.end_tokens)
        self.module[1].add_module("counts", self.counts)
        self.halts_in = halts_in
        self.asked: list[tuple[list[list[int]], RoundsSize]] = []

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        if moment.step + 1 == self.halts_in:
            threading.Event().wait()
        self.module.get_buffer("seen").add_(1)
        self.counts.add(batch)
        logits = self.module(features.hidden[0][batch.learn]).float()
        total = nn.functional.cross_entropy(logits, batch.targets) * (1 + moment.share)
        return LossParts(total, {"share": torch.tensor(moment.share)})

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        assert not self.module.training
        self.asked.append(([list(prompt) for prompt in prompts], size))
        # As drafting would, this leaves torch's generators elsewhere.
        torch.rand(3)
        passes = {1: 4, LEVELS: 3}.get(size.levels, 2)
        return Evaluation({0: [answered(7, passes + 1), answered(1, 1)]}, {"n=1": 2.5})

    def save(self, out: Path) -> None:
        (out / "config.json").write_text("{}")
        save_file({name: value.clone() for name, value in self.module.state_dict().items()}, out / "model.safetensors")

    def describe(self) -> Mapping[str, str]:
        return {"width": "narrow"}


class Ran:
    """A run of the fake recipe, what it printed, and its recipe."""

    def __init__(self, settings: TrainSettings, **changes: Any) -> None:
        self.out = settings.out
        self.recipe: FakeRecipe | None = None
        stream = io.StringIO()
        with TrainingBar(Console(file=stream)) as bar:
            self.measured = train_draft(settings, lambda target: self.build(target, changes), bar)
        self.printed = stream.getvalue()

    def build(self, target: FrozenTarget, changes: dict[str, Any]) -> FakeRecipe:
        self.recipe = FakeRecipe(target)
        for name, value in changes.items():
            setattr(self.recipe, name, value)
        return self.recipe


def answered(tokens: int, passes: int) -> RoundsAnswer:
    return RoundsAnswer(tuple(range(tokens)), passes, levels=0, packed=(), state_bytes=0)


def make_inputs(folder: Path) -> tuple[Path, Path]:
    """A tiny target and data for it."""
    data = folder / "data.jsonl"
    words = ["fox", "dog", "model", "draft", "quick", "lazy"]
    lines = [
        f'{{"instruction": "{words[n % 6]} {n}?", "output": "the {words[n % 5]} {words[n % 6]} {"x" * (n % 23)}"}}'
        for n in range(80)
    ]
    data.write_text("\n".join(lines))
    return make_checkpoint(folder / "target", "llama", dtype=torch.float32), data


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model.safetensors")


def equal(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def run(
    inputs: tuple[Path, Path],
    out: Path,
    steps: int,
    *,
    accumulate: int = 1,
    halts_in: int = 0,
    resume: bool = False,
) -> None:
    target, data = inputs
    settings = TrainSettings(
        str(target),
        (data,),
        out,
        steps=steps,
        accumulate=accumulate,
        batch_tokens=256,
        save_every=3,
        threads=1,
        device="cpu",
        resume=resume,
    )
    with TrainingBar() as bar:
        train_draft(settings, lambda loaded: FakeRecipe(loaded, halts_in), bar)
