"""The block recipe: what it learns from is what inference sees, it learns, and what it saves is what it was."""

import pytest
import torch
from torch.nn.functional import kl_div, log_softmax

from common.draft_models.block import load_block, load_fuse, read_taps
from common.draft_models.layers import beside, full_attention, masked_attention
from common.protocol.errors import MisuseError
from tests.training.draft_models.bounded import (
    logits_kept,
    losses_and_gradients,
    plain_divergences,
    target_of_many_tokens,
)
from tests.training.draft_models.rehearsal import PROMPTS, lose, measure, random_batch, random_target, train
from training.draft_models import blocks, decoder_recipe, divergence, lags
from training.draft_models.recipes import block, tandem
from training.draft_models.recipes.block import build

LENGTH = 4


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("block"))


def test_the_divergence_is_that_of_each_place_behind_the_samples_own_tokens(target, monkeypatch):
    """One block at a time, with nothing in sight that it has not received, weighed by the place."""
    recipe, batch = build(target, length=LENGTH, size=2.0), random_batch(target)
    for weights in (recipe.draft.correct.weight, recipe.draft.across.o_proj.weight):
        torch.nn.init.normal_(weights, std=0.3)  # which begin as nothing
    torch.nn.init.normal_(recipe.draft.step.weight_ih, std=3.0)  # or a path's tokens would hardly count
    seen = {}
    for name, real in (("draw_received", lags.draw_received), ("draw_blocks", blocks.draw_blocks)):
        monkeypatch.setattr(block, name, lambda *given, name=name, real=real: seen.setdefault(name, real(*given)))
    parts = lose(recipe, target, batch)
    received, drawn = seen["draw_received"], seen["draw_blocks"]
    draft, trunk, found, alone, weights = recipe.draft, recipe.draft.trunk, [], [], []
    with torch.no_grad():
        for row, column in zip(drawn.rows.tolist(), drawn.columns.tolist(), strict=True):
            tapped, logits = _tapped(target, batch.ids[row : row + 1], trunk.config.taps)
            held = received.seen[row, : column + 1, : column + 1]
            own = torch.ones_like(held).tril() & ~held
            positions = torch.arange(column + 1)[None]
            embedded = target.embedding(batch.ids[row : row + 1, : column + 1])
            first, last = trunk.keys_values(recipe.fuse(tapped[:, : column + 1]), positions)
            sees = torch.cat([held, own], dim=1)
            read = trunk.read(embedded, positions, [beside(first, masked_attention(sees))])
            owned = trunk.last.keys_values(read, positions)
            chosen = sees[-1].nonzero()[:, 0]
            memory = [torch.cat(each, dim=2)[:, :, chosen] for each in zip(last, owned, strict=True)]
            hidden = draft.predict_block(read[:, -1], positions[:, -1], full_attention, memory)[0]
            path = draft.first_path(hidden[:1])
            for offset in range(LENGTH):
                if not batch.learn[row, column : column + offset + 1].all():
                    break
                if offset:
                    path = draft.next_path(
                        path, target.embedding(batch.ids[row, column + offset : column + offset + 1])
                    )
                own = hidden[offset : offset + 1]
                wanted = log_softmax(logits[0, column + offset : column + offset + 1], -1)
                for each, out in ((found, draft.corrected(own, path) if offset else own), (alone, own)):
                    given = log_softmax(target.head(trunk.norm(out)), -1)
                    each.append(kl_div(given, wanted, reduction="sum", log_target=True))
                weights.append(2.718281828 ** (-offset / 7))
    weights = torch.tensor(weights)
    assert len(found) == len(drawn.block) > LENGTH
    for name, each in (("kl", found), ("kl alone", alone)):
        expected = float((torch.stack(each) * weights).sum() / weights.sum())
        assert float(parts.metrics[name]) == pytest.approx(expected, rel=1e-4)
    assert float(parts.metrics["kl"]) != pytest.approx(float(parts.metrics["kl alone"]), rel=1e-2)


def test_levels_are_learned_as_tandem_learns_them(target, monkeypatch):
    recipe, batch = build(target, length=LENGTH, size=2.0), random_batch(target)
    alike = tandem.build(target, size=2.0)
    alike.draft.load_state_dict(recipe.draft.trunk.state_dict())
    alike.fuse.load_state_dict(recipe.fuse.state_dict())
    received = lags.draw_received(batch, lags.LagSettings(missing=0.5, alone=0.5))
    for module in (block, decoder_recipe):
        monkeypatch.setattr(module, "draw_received", lambda *_: received)
    levels, theirs = lose(recipe, target, batch).metrics["kl next"], lose(alike, target, batch).total
    assert float(levels) == pytest.approx(float(theirs.detach()), rel=1e-5)


@pytest.mark.parametrize("uncorrected", [False, True])
def test_levels_count_as_much_as_blocks_and_the_correction_comes_first(target, uncorrected):
    recipe, batch = build(target, length=LENGTH, size=2.0, uncorrected=uncorrected), random_batch(target)
    torch.nn.init.normal_(recipe.draft.correct.weight, std=0.3)
    parts = lose(recipe, target, batch)
    levels, corrected, alone = (float(parts.metrics[name]) for name in ("kl next", "kl", "kl alone"))
    expected = levels + (alone if uncorrected else corrected + 0.3 * alone)
    assert float(parts.total.detach()) == pytest.approx(expected, rel=1e-5)


def _tapped(target, ids, taps):
    """What enters the tapped layers, and what leaves the last one before the final norm; and the logits."""
    left = []
    hook = target.model.model.layers[-1].register_forward_hook(lambda *given: left.append(given[2]))
    known = target.model(ids, output_hidden_states=True)
    hook.remove()
    entered = (*known.hidden_states[:-1], left[0] if isinstance(left[0], torch.Tensor) else left[0][0])
    return torch.cat([entered[tap] for tap in taps], dim=-1), known.logits


@pytest.mark.parametrize("uncorrected", [False, True])
def test_losses_and_gradients_are_those_of_all_positions_at_once(target, monkeypatch, uncorrected):
    recipe, batch = build(target, length=LENGTH, size=2.0, uncorrected=uncorrected), random_batch(target)
    torch.nn.init.normal_(recipe.draft.correct.weight, std=0.3)
    monkeypatch.setattr(divergence, "_POSITIONS", 7)
    bounded = losses_and_gradients(recipe, target, batch)
    monkeypatch.setattr(block, "divergences", plain_divergences)
    torch.testing.assert_close(bounded, losses_and_gradients(recipe, target, batch), rtol=1e-4, atol=1e-6)


def test_what_training_keeps_does_not_hold_logits_of_all_places(tmp_path):
    target = target_of_many_tokens(tmp_path)
    assert logits_kept(build(target), target) < 2


@pytest.mark.parametrize("options", [{}, {"missing": 0.5, "alone": 0.5}, {"uncorrected": True}])
def test_every_form_learns(target, options):
    recipe = build(target, length=LENGTH, size=2.0, **options)
    losses = train(recipe, target, random_batch(target), 60, 3e-3)
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    assert bool(recipe.draft.correct.weight.any()) != options.get("uncorrected", False)


def test_it_is_measured_and_what_is_saved_is_what_was_trained(target, tmp_path):
    recipe = build(target, length=LENGTH, size=2.0)
    train(recipe, target, random_batch(target), 3, 1e-3)
    assert measure(recipe, target, PROMPTS, 12).accept_length >= 1
    recipe.save(tmp_path)
    saved = load_block(tmp_path)
    assert saved.config == recipe.config
    assert read_taps(tmp_path, target.config.num_hidden_layers) == recipe.config.trunk.taps
    for ours, theirs in ((saved, recipe.draft), (load_fuse(tmp_path), recipe.fuse)):
        kept = ours.state_dict()
        assert all(torch.equal(kept[name], each.bfloat16().float()) for name, each in theirs.state_dict().items())


@pytest.mark.parametrize("options", [{"missing": 1.5}, {"alone": -0.1}, {"size": 0.1}])
def test_what_cannot_be_is_refused(target, options):
    with pytest.raises(MisuseError):
        build(target, **options)
