"""The loss of small decoders, by hand: what the target's head makes of their rows, beside the target's distribution."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.training.draft_models.rehearsal import random_batch, random_target
from training.draft_models.decoder_recipe import DecoderRecipe
from training.draft_models.features import features
from training.draft_models.lags import LagSettings, draw_received
from training.draft_models.recipe import Batch, Features, Moment
from training.draft_models.recipes import glide, tandem

HALF, LIKELY, SURE = (0.5, 0.25, 0.25), (0.125, 0.75, 0.125), (0.25, 0.25, 0.5)


def test_the_loss_is_the_divergence_from_the_targets_distribution_at_learned_positions() -> None:
    """Two logits of a vocabulary of three agree in their likeliest token, and one of these in everything."""
    ids = torch.zeros(2, 3, dtype=torch.int64)
    learn = torch.tensor([[True, True, False], [False, True, False]])
    out = torch.full((2, 3, 3), 99.0)
    out[learn] = 0.5 * torch.tensor([HALF, LIKELY, SURE]).log()
    wanted = torch.tensor([LIKELY, LIKELY, (0.125, 0.125, 0.75)]).log() + 7.0
    asked: list[torch.Tensor] = []

    def predict(batch: Batch, features: Features, received: object, positions: torch.Tensor) -> torch.Tensor:
        asked.append(positions)
        return out

    recipe = SimpleNamespace(_target=SimpleNamespace(head=lambda read: 2 * read), _lags=LagSettings(), predict=predict)
    batch = Batch(ids, learn, torch.tensor([3, 3]))
    parts = DecoderRecipe.loss(recipe, batch, Features(logits=wanted), Moment(0, 1))
    first = 0.125 * math.log(0.125 / 0.5) + 0.75 * math.log(0.75 / 0.25) + 0.125 * math.log(0.125 / 0.25)
    third = 2 * 0.125 * math.log(0.125 / 0.25) + 0.75 * math.log(0.75 / 0.5)
    assert float(parts.total) == pytest.approx((first + 0.0 + third) / 3, rel=1e-5)
    assert float(parts.metrics["kl"]) == float(parts.total)
    assert float(parts.metrics["agreement"]) == pytest.approx(2 / 3)
    assert [positions.tolist() for positions in asked] == [[[0, 1, 2]] * 2]


@pytest.mark.parametrize("build", [glide.build, tandem.build])
def test_what_is_predicted_has_the_dtype_of_the_target_whose_head_reads_it(
    tmp_path: Path, build: Callable[..., DecoderRecipe]
) -> None:
    target = random_target(tmp_path, dtype="bfloat16")
    recipe, batch = build(target, size=3.0), random_batch(target)
    received, positions = draw_received(batch, LagSettings()), torch.arange(batch.ids.shape[1]).expand_as(batch.ids)
    assert recipe.predict(batch, features(target, batch, recipe.needs), received, positions).dtype == torch.bfloat16
