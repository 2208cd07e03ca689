"""The glide recipe: what it learns from is what inference sees, it learns, and what it saves is what it was."""

from dataclasses import replace

import pytest
import torch

from common.draft_models.glide import load_glide
from common.protocol.errors import MisuseError
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from tests.training.draft_models.recipes.on_policy import drafted_divergence
from tests.training.draft_models.rehearsal import PROMPTS, lose, measure, random_batch, random_target, train
from training.draft_models import decoder_recipe, lags
from training.draft_models.features import load_target
from training.draft_models.recipes.glide import build


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("glide"))


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
    saved = load_glide(tmp_path)
    assert saved.config == recipe.draft.config
    kept = saved.state_dict()
    assert all(torch.equal(kept[name], each.bfloat16()) for name, each in recipe.draft.state_dict().items())


@pytest.mark.parametrize("options", [{"missing": 1.5}, {"alone": -0.1}, {"size": 0.1}])
def test_what_cannot_be_is_refused(target, options):
    with pytest.raises(MisuseError):
        build(target, **options)


def target_of_family(folder, family, dtype="float32"):
    return load_target(str(make_family_checkpoint(folder / "target", family)), torch.device("cpu"), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("last", "base"), [("full_attention", 1_000_000.0), ("sliding_attention", 10_000.0)])
def test_queries_are_turned_as_the_last_layers_keys_are(tmp_path, last, base, dtype):
    """Gemma 3's layers of either type have a base of their own."""
    gemma3 = FAMILIES["gemma3"]
    types = [*gemma3.options["layer_types"][:-1], last]
    target = target_of_family(tmp_path, replace(gemma3, options={**gemma3.options, "layer_types": types}), dtype)
    assert build(target, size=3.0).draft.config.layer.rope_base == base


@pytest.mark.parametrize(
    ("family", "scaling"), [("llama3", "llama3"), ("gpt-oss", "yarn"), ("olmo3", None), ("qwen3", None)]
)
def test_scaled_positions_and_normed_heads_are_turned_alike(tmp_path, family, scaling):
    """OLMo 3 scales those of its full layers, of which the last is none."""
    found = build(target_of_family(tmp_path, FAMILIES[family], "bfloat16"), size=3.0).draft.config.layer.rope_scaling
    assert (found and found.rope_type) == scaling


@pytest.mark.parametrize("family", ["smollm3", "cohere", "ernie4_5", "gpt2", "phi"])
def test_a_target_that_turns_its_keys_otherwise_is_refused(tmp_path, family):
    """The last layer turns none, other numbers together, or a part of them."""
    with pytest.raises(
        MisuseError, match=r"as target turns its keys, .* in a way that is not known here; train eagle3"
    ):
        build(target_of_family(tmp_path, FAMILIES[family]), size=3.0)
