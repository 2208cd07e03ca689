"""The dflash recipe: what it learns from is what inference sees, it learns, and what it saves is what it was."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import kl_div, log_softmax
from transformers import LlamaConfig, LlamaForCausalLM

from common.codec import encode
from common.draft_models.dflash import load_dflash, load_fuse, read_taps
from common.drafters.dflash import DflashNetwork
from common.models.parts import head_of
from common.protocol.errors import MisuseError
from common.protocol.messages import State
from tests.training.draft_models.bounded import (
    logits_kept,
    losses_and_gradients,
    plain_divergences,
    target_of_many_tokens,
)
from tests.training.draft_models.rehearsal import (
    PROMPTS,
    learning_only,
    lose,
    measure,
    random_batch,
    random_target,
    train,
)
from training.draft_models import blocks, divergence, lags
from training.draft_models.features import features
from training.draft_models.layer_sizes import layer_parameters, target_layer
from training.draft_models.recipes import dflash
from training.draft_models.recipes.dflash import build, published_taps
from training.draft_models.taps import tapped

LENGTH = 4


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("dflash"))


@pytest.mark.parametrize("from_the_first_token", [False, True])
@torch.no_grad()
def test_the_divergence_is_that_of_blocks_from_what_has_been_received(target, monkeypatch, from_the_first_token):
    recipe, batch = build(target, length=LENGTH, size=4.0, missing=0.5, alone=0.5), random_batch(target)
    if from_the_first_token:
        batch = learning_only(batch, 0)
    for weight in recipe.module.parameters():
        weight.add_(torch.randn(weight.shape) * 0.2)
    monkeypatch.setattr("common.drafters.predicted_blocks._SHORTLIST", target.config.vocab_size)
    seen = {}
    for name, real in (("draw_received", lags.draw_received), ("draw_blocks", blocks.draw_blocks)):
        monkeypatch.setattr(dflash, name, lambda *given, name=name, real=real: seen.setdefault(name, real(*given)))
    parts = lose(recipe, target, batch)
    received, drawn = seen["draw_received"], seen["draw_blocks"]
    known = features(target, batch, recipe.needs)
    states = recipe.fuse(tapped(target, known, recipe.draft.config.taps))
    found, firsts, weights = [], [], []
    for row, column in zip(drawn.rows.tolist(), drawn.columns.tolist(), strict=True):
        network = DflashNetwork(recipe.draft, recipe._tail, head_of(recipe._tail), 64)
        for position in range(int(received.newest[row, column]) + 1):
            if received.held[row, position]:
                one = states[row, position : position + 1]
                network.absorb([State(0, position, 1, "fused", "float16", tuple(one.shape), encode(one, "float16"))])
        block = network.predict_block(batch.ids[row, : column + 1].tolist(), ())
        given = log_softmax(network.logits(block, [(0,) * offset for offset in range(block.length)]).float(), -1)
        wanted = log_softmax(target.model(batch.ids[row : row + 1]).logits[0].float(), -1)
        for offset in range(block.length):
            if not batch.learn[row, column : column + offset + 1].all():
                break
            found.append(kl_div(given[offset], wanted[column + offset], reduction="sum", log_target=True))
            weights.append(2.718281828 ** (-offset / 7))
            firsts += [] if offset else found[-1:]
    weights = torch.tensor(weights)
    assert len(found) == len(drawn.block)
    expected = float((torch.stack(found) * weights).sum() / weights.sum())
    assert float(parts.metrics["kl"]) == float(parts.total) == pytest.approx(expected, rel=5e-3)
    assert float(parts.metrics["kl next"]) == pytest.approx(float(torch.stack(firsts).mean()), rel=5e-3)


def test_losses_and_gradients_are_those_of_all_positions_at_once(target, monkeypatch):
    recipe, batch = build(target, length=LENGTH, size=4.0), random_batch(target)
    monkeypatch.setattr(divergence, "_POSITIONS", 7)
    bounded = losses_and_gradients(recipe, target, batch)
    monkeypatch.setattr(dflash, "divergences", plain_divergences)
    torch.testing.assert_close(bounded, losses_and_gradients(recipe, target, batch), rtol=1e-4, atol=1e-6)


def test_what_training_keeps_does_not_hold_logits_of_all_places(tmp_path):
    target = target_of_many_tokens(tmp_path)
    assert logits_kept(build(target), target) < 2


def test_it_learns_and_is_measured_and_what_is_saved_is_what_was_trained(target, tmp_path):
    recipe = build(target, length=LENGTH, size=4.0, missing=0.5, alone=0.5)
    losses = train(recipe, target, random_batch(target), 60, 3e-3)
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    assert measure(recipe, target, PROMPTS, 12).accept_length >= 1
    recipe.save(tmp_path)
    saved = load_dflash(tmp_path)
    assert saved.config == recipe.draft.config
    assert read_taps(tmp_path, target.config.num_hidden_layers) == recipe.draft.config.taps
    for ours, theirs in ((saved, recipe.draft), (load_fuse(tmp_path), recipe.fuse)):
        kept = ours.state_dict()
        assert all(
            torch.equal(kept[name].float(), each.bfloat16().float()) for name, each in theirs.state_dict().items()
        )


def test_it_reads_the_layers_that_the_authors_draft_for_qwen3_8b_reads():
    assert published_taps(36, 5) == (2, 10, 18, 26, 34)
    assert published_taps(36, 1) == (19,)


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_the_default_size_leaves_something_for_layers_whose_attention_is_wide(target, layers):
    """As in gpt-oss-20b, where attention alone takes half a layer."""
    shape = {"hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 8}
    config = LlamaConfig(vocab_size=300, num_hidden_layers=24, intermediate_size=32, **shape)
    wide = build(replace(target, model=LlamaForCausalLM(config)), layers=layers).draft.config
    assert wide.layer.intermediate >= 16
    assert wide.layers == layers


@pytest.mark.parametrize(("layers", "size"), [(1, 2.0), (2, 2.5), (2, 4.0)])
def test_a_draft_and_what_fuses_its_state_are_as_large_as_asked(target, layers, size):
    recipe = build(target, layers=layers, size=size)
    trained = sum(weights.numel() for weights in recipe.module.parameters() if weights.ndim > 1)
    wanted = size * layer_parameters(target_layer(target))
    unit = 3 * target.config.hidden_size * layers  # one more of each feed-forward part
    assert wanted - unit <= trained <= wanted


def test_a_block_is_masked_by_the_padding_token_where_the_target_has_one(target):
    last = target.config.vocab_size - 1
    for padding, mask in ((5, 5), (last, last), (last + 1, 0), (None, 0)):
        tokenizer = SimpleNamespace(pad_token_id=padding)
        assert build(replace(target, tokenizer=tokenizer), length=LENGTH).draft.config.mask == mask


def test_the_smallest_block_is_the_newest_token_and_one_more(target):
    recipe = build(target, length=2, size=4.0)
    assert lose(recipe, target, random_batch(target)).total.isfinite()
    assert measure(recipe, target, PROMPTS[:1], 4).accept_length >= 1


@pytest.mark.parametrize("options", [{"missing": 1.5}, {"alone": -0.1}, {"size": 0.1}, {"length": 1}])
def test_what_cannot_be_is_refused(target, options):
    with pytest.raises(MisuseError):
        build(target, **options)
