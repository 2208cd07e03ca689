"""The tandem recipe: what it learns from is what inference sees, it learns, and what it saves is what it was."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from common.draft_models.tandem import load_fuse, load_tandem, read_taps
from common.protocol.errors import MisuseError
from tests.training.draft_models.recipes.on_policy import drafted_divergence
from tests.training.draft_models.rehearsal import PROMPTS, lose, measure, random_batch, random_target, train
from training.draft_models import decoder_recipe, lags
from training.draft_models.recipes.tandem import build


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("tandem"))


def test_the_divergence_is_that_of_drafts_from_what_has_been_received(target, monkeypatch):
    recipe, batch = build(target, size=3.0, missing=0.5, alone=0.5), random_batch(target)
    with torch.no_grad():
        for weight in recipe.module.parameters():
            weight.add_(torch.randn(weight.shape) * 0.2)
    seen = []
    draw = lags.draw_received
    monkeypatch.setattr(decoder_recipe, "draw_received", lambda *given: seen.append(draw(*given)) or seen[-1])
    with torch.no_grad():
        learned = float(lose(recipe, target, batch).metrics["kl"])
        assert learned == pytest.approx(drafted_divergence(recipe, target, batch, seen[0]), rel=5e-3)


def test_it_learns_and_is_measured_and_what_is_saved_is_what_was_trained(target, tmp_path):
    recipe = build(target, size=3.0, missing=0.5, alone=0.5)
    losses = train(recipe, target, random_batch(target), 40, 3e-3)
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert measure(recipe, target, PROMPTS, 12).accept_length >= 1
    recipe.save(tmp_path)
    saved = load_tandem(tmp_path)
    assert saved.config == recipe.draft.config
    assert read_taps(tmp_path, target.config.num_hidden_layers) == recipe.draft.config.taps
    for ours, theirs in ((saved, recipe.draft), (load_fuse(tmp_path), recipe.fuse)):
        kept = ours.state_dict()
        assert all(
            torch.equal(kept[name].float(), each.bfloat16().float()) for name, each in theirs.state_dict().items()
        )


def test_the_default_size_leaves_something_for_layers_whose_keys_are_wide(target):
    """As in Qwen3-0.6B, where attention and state alone take more than 1.25 layers."""
    shape = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    config = Qwen3Config(vocab_size=300, num_hidden_layers=3, intermediate_size=24, **shape)
    wide = replace(target, model=Qwen3ForCausalLM(config))
    assert build(wide).draft.config.layer.intermediate >= 8
    with pytest.raises(MisuseError, match="leaves nothing"):
        build(wide, size=1.25)


@pytest.mark.parametrize("options", [{"missing": 1.5}, {"alone": -0.1}, {"size": 0.1}, {"state_width": 0}])
def test_what_cannot_be_is_refused(target, options):
    with pytest.raises(MisuseError):
        build(target, **options)
