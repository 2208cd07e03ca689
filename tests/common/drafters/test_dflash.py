"""A published DFlash draft computes the published equations, with whatever state has arrived, and drafts from them."""

from dataclasses import replace

import pytest
import torch

from common.draft_models.dflash import load_dflash, load_fuse, read_taps
from common.draft_models.exporters import FusedExporter
from common.drafters import predicted_blocks
from common.drafters.best_first import Expansion
from common.drafters.block_only_drafter import BlockOnlyDrafter
from common.drafters.dflash import DflashNetwork
from common.models.parts import head_of
from common.protocol.sampling import Sampling
from common.protocol.views import TreeView
from tests.common.draft_models import published_dflash
from tests.common.draft_models.published_dflash import DIM, EPSILON, LENGTH, MASK
from tests.common.drafters.crossing import CONTEXT, HELD, REQUEST, TOKENS, Scene
from tests.plain_layers import attended, heads, rms, swiglu, turned

TAPS = (1, 3)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("dflash"), TAPS)


@pytest.fixture(scope="module")
def published(scene, tmp_path_factory):
    sizes = scene.target.config
    directory = tmp_path_factory.mktemp("published")
    return published_dflash.write(directory, sizes.hidden_size, sizes.vocab_size)


def network_for(scene, published):
    return DflashNetwork(load_dflash(published).double(), scene.tail, head_of(scene.tail), CONTEXT)


def exporter_for(published):
    return FusedExporter(load_fuse(published).double(), read_taps(published, 4))


@pytest.fixture
def every_token(scene, monkeypatch):
    """Whatever its place, so that log-probabilities are those of the whole vocabulary."""
    monkeypatch.setattr(predicted_blocks, "_SHORTLIST", scene.target.config.vocab_size)


def stated(scene, path, held):
    """Log-probabilities of the masked rows behind `TOKENS` and `path`, from the equations."""
    weights = {name: each.double() for name, each in published_dflash.tensors(scene.target.config.hidden_size).items()}
    entered = scene.target.model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
    both = torch.cat([entered[tap][0] for tap in TAPS], -1)
    states = rms(both @ weights["fc.weight"].T, weights["hidden_norm.weight"], EPSILON).half().double()
    known = torch.tensor(sorted(held), dtype=torch.long)
    sequence = [*TOKENS, *path]
    first = max(held, default=-1) + 1
    rows = torch.tensor([*sequence[first:], *[MASK] * (LENGTH - 1)])
    at = torch.arange(first, first + len(rows))
    x = scene.target.get_input_embeddings()(rows)
    for number in range(2):
        own = {name.removeprefix(f"layers.{number}."): each for name, each in weights.items()}
        normed = rms(x, own["input_layernorm.weight"], EPSILON)
        source = torch.cat([states[known], normed])
        queries = heads(normed, own["self_attn.q_proj.weight"], DIM)
        keys, values = (heads(source, own[f"self_attn.{name}_proj.weight"], DIM) for name in "kv")
        queries = turned(rms(queries, own["self_attn.q_norm.weight"], EPSILON), at, published_dflash.BASE)
        keys = rms(keys, own["self_attn.k_norm.weight"], EPSILON)
        keys = turned(keys, torch.cat([known, at]), published_dflash.BASE)
        everything = torch.ones(len(queries), len(keys), dtype=torch.bool)
        x = x + attended(queries, keys, values, everything) @ own["self_attn.o_proj.weight"].T
        normed = rms(x, own["post_attention_layernorm.weight"], EPSILON)
        x = x + swiglu(normed, *(own[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down")))
    out = rms(x[1 - LENGTH :], weights["norm.weight"], EPSILON)
    return torch.log_softmax(scene.target.lm_head(out), -1)


@torch.no_grad()
@pytest.mark.parametrize("path", [(), (61, 88)], ids=["at the root", "below nodes"])
@pytest.mark.parametrize("held", [*HELD.values(), range(11)], ids=[*HELD, "as published"])
def test_a_block_is_computed_from_what_has_arrived(scene, published, every_token, path, held):
    network = network_for(scene, published)
    network.absorb(scene.frames(exporter_for(published), held))
    block = network.predict_block(TOKENS, path)
    found = torch.log_softmax(network.logits(block, [(1,) * ahead for ahead in range(block.length)]), -1)
    assert block.length == LENGTH - 1
    torch.testing.assert_close(found, stated(scene, path, held), rtol=1e-5, atol=1e-7)


@torch.no_grad()
def test_a_block_proposes_from_the_likeliest_tokens_of_its_places(scene, published, monkeypatch):
    monkeypatch.setattr(predicted_blocks, "_SHORTLIST", 3)
    network = network_for(scene, published)
    network.absorb(scene.frames(exporter_for(published), range(11)))
    block = network.predict_block(TOKENS, ())
    rows = stated(scene, (), range(11))
    assert set(block.tokens.tolist()) == set(rows.topk(3).indices.flatten().tolist())
    found = torch.log_softmax(network.logits(block, [(), (1, 1)]), -1)
    expected = torch.log_softmax(rows[[0, 2]][:, block.tokens], -1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_state_of_rewritten_positions_is_forgotten(scene, published):
    exporter, network, fresh = exporter_for(published), network_for(scene, published), network_for(scene, published)
    network.absorb(scene.frames(exporter, range(11)))
    network.forget(6)
    fresh.absorb(scene.frames(exporter, range(6)))
    rewritten = [*TOKENS[:6], 200, 201]
    found, expected = (each.logits(each.predict_block(rewritten, ()), [()]) for each in (network, fresh))
    torch.testing.assert_close(found, expected)


def test_one_call_drafts_the_chain_that_the_block_makes_most_probable(scene, published, every_token):
    expansion = Expansion(children=1, breadth=1, nodes=30, least_probability=1e-12)
    drafter = BlockOnlyDrafter(network_for(scene, published), REQUEST, expansion)
    proposals = drafter.draft(TreeView(tuple(TOKENS), ()), scene.frames(exporter_for(published), range(11)))
    rows = stated(scene, (), range(11))
    assert drafter.kind == "dflash"
    assert [each.token for each in proposals] == rows.argmax(-1).tolist()
    assert [each.parent for each in proposals] == [-number for number in range(LENGTH - 1)]
    assert [each.logp for each in proposals] == pytest.approx(rows.amax(-1).tolist(), abs=1e-4)


def test_nothing_is_drawn_behind_drawn_siblings_in_the_same_call(scene, published):
    expansion = Expansion(children=2, breadth=4, nodes=30, least_probability=1e-12, draws_once=True)
    drafter = BlockOnlyDrafter(network_for(scene, published), REQUEST, expansion)
    view = TreeView(tuple(TOKENS), (), rule="speculative", sampling=Sampling(1.0))
    drawn = drafter.draft(view, scene.frames(exporter_for(published), range(11)))
    assert len(drawn) == 2
    assert all(each.parent == 0 for each in drawn)
    assert any(each.parent < 0 for each in drafter.draft(replace(view, rule="greedy"))), "what is not drawn goes ahead"
