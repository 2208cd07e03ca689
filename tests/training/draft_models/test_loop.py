"""The learning rate rises, peaks once and falls to its final share, whatever the length of the run; a step of several
batches is one of all their samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from training.draft_models.loop import FINAL_SHARE, LONGEST_WARM_UP, LoopSettings, Trainer, rate_share
from training.draft_models.recipe import Batch, FeatureNeeds, Features, LossParts, Moment, Tuning
from training.draft_models.workers import OneWorker

VOCABULARY = 5


@pytest.mark.parametrize("steps", [1, 2, 40, 1000, 100_000])
def test_the_rate_rises_and_then_falls(steps: int) -> None:
    shares = [rate_share(step, steps) for step in range(steps)]
    peak = shares.index(1.0)
    assert peak < max(1, min(LONGEST_WARM_UP, 0.05 * steps))
    assert shares[:peak] == sorted(shares[:peak])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)
    assert min(shares) > 0


def test_the_rate_ends_near_its_final_share() -> None:
    assert rate_share(9_999, 10_000) == pytest.approx(FINAL_SHARE, abs=1e-3)
    assert rate_share(10_000 - 1, 10_000) < rate_share(5_000, 10_000) < 1


class Bigrams:
    """A table of bigrams, whose loss is a mean over learned positions."""

    kind = "bigrams"
    needs = FeatureNeeds()

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.tuning = Tuning(rate=0.1)
        self.module = nn.Linear(VOCABULARY, VOCABULARY)

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        logits = self.module(one_hot(batch.ids[batch.learn], VOCABULARY).float())
        right = (logits.argmax(-1) == batch.targets).float().mean()
        return LossParts(cross_entropy(logits, batch.targets), {"right": right})


def batch_of(rows: Sequence[Sequence[int]]) -> Batch:
    """Rows of tokens from 1, all learned but the first; 0 is padding."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return Batch(
        ids, (ids > 0) & (ids.roll(-1, dims=1) > 0) & (torch.arange(ids.shape[1]) < ids.shape[1] - 1), (ids > 0).sum(1)
    )


def test_batches_of_a_step_weigh_as_what_is_learned_of_them() -> None:
    """As one batch of all, though one of them holds most."""
    rows = [[1, 2], [4, 3, 2, 1, 2, 3, 4, 4], [2, 2, 3], [3, 4, 1, 1]]
    parts = [batch_of(rows[:1]), batch_of(rows[1:2]), batch_of(rows[2:])]
    in_parts, at_once = trained_on(parts), trained_on([batch_of(rows)])
    assert in_parts[0] == pytest.approx(at_once[0])
    torch.testing.assert_close(in_parts[1], at_once[1])


def trained_on(batches: Sequence[Batch]) -> tuple[dict[str, float], torch.Tensor]:
    """What the last of five steps on these batches reports, and the weights after it."""
    recipe: Any = Bigrams()
    settings = LoopSettings(seed=0, accumulate=len(batches))
    trainer = Trainer(
        recipe,
        lambda number: batches[number % len(batches)],
        lambda _: Features(),
        lambda: None,
        settings,
        OneWorker(torch.device("cpu")),
    )
    found = [trainer.take(Moment(step, 5)) for step in range(5)][-1]
    return {name: float(value) for name, value in found.items()}, recipe.module.weight.detach()
