"""The independent recipe: a small model of the target's family that a server takes as it is."""

import pytest
import torch
from transformers import GPT2Config, GPTNeoXConfig, OPTConfig

from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.packed import PackedModel
from common.protocol.errors import MisuseError
from netem.experiments.family_checkpoints import FAMILIES as FAMILIES_BY_NAME
from netem.experiments.family_checkpoints import make_family_checkpoint
from tests.families import FAMILIES
from tests.other_families import GEMMA_4
from tests.training.draft_models.rehearsal import lose, measure, random_batch, random_target, target_of, train
from training.draft_models.features import load_target
from training.draft_models.recipes import independent
from training.draft_models.recipes.independent import build
from training.draft_models.recipes.independent_sizes import count, sized_config

CPU = torch.device("cpu")
GPT2 = {"n_embd": 48, "n_head": 6, "n_layer": 2, "vocab_size": 300}
NEOX = {"hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 2, "vocab_size": 300}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("independent"))


def test_the_loss_is_the_divergence_from_the_target_and_a_little_of_the_tokens(target):
    recipe, batch = build(target, token_weight=0.25), random_batch(target)
    parts, divergences, of_tokens = lose(recipe, target, batch), [], []
    with torch.no_grad():
        given = recipe.module(batch.ids).logits[batch.learn].log_softmax(-1)
        wanted = target.model(batch.ids).logits[batch.learn].log_softmax(-1)
    for own, theirs, token in zip(given, wanted, batch.targets, strict=True):
        divergences.append((theirs.exp() * (theirs - own)).sum())
        of_tokens.append(-own[token])
    divergence, tokens = (torch.stack(each).mean() for each in (divergences, of_tokens))
    torch.testing.assert_close(parts.total.detach(), divergence + 0.25 * tokens, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts.metrics["kl"], divergence, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts.metrics["tokens"], tokens, rtol=1e-4, atol=1e-4)


def test_a_draft_is_measured_with_the_frequencies_that_its_checkpoint_has(tmp_path, monkeypatch):
    """In bfloat16 they would turn keys far away by whole radians."""
    target, measured = random_target(tmp_path, dtype="bfloat16"), []
    recipe = build(target, layers=1, hidden=24)

    def packed(model, capacity):
        measured.append(model)
        return PackedModel(model, capacity)

    monkeypatch.setattr(independent, "PackedModel", packed)
    recipe._drafter(64)
    assert {each.dtype for each in measured[0].parameters()} == {torch.bfloat16}
    trained = dict(recipe.module.named_buffers())
    assert trained
    torch.testing.assert_close(dict(measured[0].named_buffers()), trained, rtol=0, atol=0)


@torch.no_grad()
def expected_agreement(recipe, target, batch):
    """How often draft and target have the same likeliest token, of learned positions."""
    given, wanted = (
        model(batch.ids).logits[batch.learn].argmax(-1).tolist() for model in (recipe.module, target.model)
    )
    return sum(own == theirs for own, theirs in zip(given, wanted, strict=True)) / len(wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_learns_and_is_saved_as_an_ordinary_checkpoint(tmp_path, family):
    target = random_target(tmp_path, family)
    recipe, batch = build(target, layers=2, hidden=24), random_batch(target, rows=8)
    own = [row[:6].tolist() for row in batch.ids]
    before = measure(recipe, target, own, 12).accept_length
    losses = train(recipe, target, batch, 100, 1e-2)
    assert losses[-1] < 0.5 * losses[0]
    agreement = float(lose(recipe, target, batch).metrics["agreement"])
    assert agreement == pytest.approx(expected_agreement(recipe, target, batch))
    assert agreement > 0
    assert measure(recipe, target, own, 12).accept_length > 1.5 * before
    lose(recipe, target, batch).total.backward()  # measuring has not taken the model away
    recipe.save(tmp_path / "draft")
    made = load_causal_lm(tmp_path / "draft")
    for name, tensor in recipe.module.state_dict().items():
        assert torch.equal(made.state_dict()[name], tensor.bfloat16().float())
    assert load_tokenizer(tmp_path / "draft").get_vocab() == target.tokenizer.get_vocab()
    assert set(target.end_tokens) == {made.generation_config.eos_token_id[0]}
    assert made.config.model_type == target.config.model_type


@pytest.mark.parametrize("family", ["gemma2", "gpt-oss", "llama4"])
def test_families_with_other_attention_or_names_are_drafted_for(tmp_path, family):
    given = make_family_checkpoint(tmp_path / "target", FAMILIES_BY_NAME[family])
    target = load_target(str(given), torch.device("cpu"), "float32")
    recipe = build(target, layers=2, hidden=24)
    lose(recipe, target, random_batch(target)).total.backward()
    recipe.save(tmp_path / "draft")
    assert load_causal_lm(tmp_path / "draft").config.model_type == target.config.model_type


def test_no_model_is_made_of_layers_that_differ(tmp_path):
    with pytest.raises(MisuseError, match=r"the layers of target differ in their sizes, .*; train eagle3 or"):
        sized_config(
            load_target(str(make_family_checkpoint(tmp_path / "target", GEMMA_4)), torch.device("cpu"), "float32")
        )


def test_a_family_that_names_the_kind_of_each_layer_has_no_deeper_drafts(tmp_path):
    few = load_target(str(make_family_checkpoint(tmp_path / "1", FAMILIES_BY_NAME["qwen2"], layers=1)), CPU, "float32")
    with pytest.raises(MisuseError, match="--layers must be at most 1 for 1, whose layers differ, not 2"):
        build(few, layers=2)
    assert build(few).module.config.num_hidden_layers == 1


def test_sizes_keep_the_targets_proportions(target):
    config = sized_config(target, layers=1, hidden=24)
    assert (config.num_hidden_layers, config.hidden_size) == (1, 24)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (3, 1, 8)
    assert config.intermediate_size == 48


@pytest.mark.parametrize(
    ("config", "width"),
    [
        (GPT2Config(**GPT2), 4 * 24),
        (GPT2Config(**GPT2, n_inner=96), 48),
        (GPTNeoXConfig(**NEOX, intermediate_size=96), 48),
    ],
)
def test_families_with_other_names_of_sizes_keep_their_proportions(tmp_path, config, width):
    target = target_of(tmp_path, config)
    made = build(target, layers=1, hidden=24).module
    biases = [each for name, each in made.named_parameters() if name.endswith("bias") and "mlp" in name]
    assert [len(each) for each in biases] == [width, 24]
    assert count(sized_config(target)) > count(sized_config(target, hidden=8))


def test_a_target_whose_feed_forward_width_has_another_name_is_refused(tmp_path):
    target = target_of(tmp_path, OPTConfig(**NEOX, ffn_dim=96))
    with pytest.raises(MisuseError, match="model type 'opt' gives its feed-forward parts no width"):
        build(target, layers=1, hidden=24)


@pytest.mark.parametrize("parameters", [10_000, 20_000, 40_000])
def test_the_width_comes_next_to_the_parameters_asked_for(target, parameters):
    found = count(sized_config(target, parameters=parameters))
    for width in range(8, 49, 8):
        assert abs(found - parameters) <= abs(count(sized_config(target, hidden=width)) - parameters)


def test_sizes_that_make_no_model_are_refused(target):
    for options, message in (
        ({"layers": 0}, "--layers"),
        ({"hidden": 20}, "multiple of 8"),
        ({"hidden": 24, "parameters": 5}, "twice"),
    ):
        with pytest.raises(MisuseError, match=message):
            sized_config(target, **options)
    with pytest.raises(MisuseError, match="--token-weight"):
        build(target, token_weight=-1.0)
