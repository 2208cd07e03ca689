"""The moa recipe: what it learns from is what inference sees, every form of it, and what it saves is what it was."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import kl_div, log_softmax
from transformers import GPT2Config, GPT2LMHeadModel

from common.draft_models.layers import full_attention, masked_attention
from common.draft_models.moa import load_lsa, load_moa, read_moa_config
from common.draft_models.state_codec import StateCodec
from common.protocol.errors import MisuseError, OutriderError
from netem.experiments.family_checkpoints import make_family_checkpoint
from tests.families import FAMILIES
from tests.other_families import GEMMA_4
from tests.training.draft_models.rehearsal import PROMPTS, lose, measure, random_batch, random_target, target_of, train
from training.draft_models import lags
from training.draft_models.features import features, load_target
from training.draft_models.layer_sizes import layer_parameters, target_layer
from training.draft_models.recipe import Moment
from training.draft_models.recipes import moa
from training.draft_models.recipes.moa import build
from training.draft_models.recipes.moa_sizes import default_size, moa_config


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("moa"))


def test_the_divergence_is_that_of_a_draft_with_the_state_it_would_have(target, monkeypatch):
    """One query at a time, with nothing in sight that it has not received."""
    recipe, batch = build(target, layers=(0,), size=2.0), random_batch(target)
    drawn = []
    monkeypatch.setattr(moa, "draw_received", lambda *given: drawn.append(lags.draw_received(*given)) or drawn[-1])
    parts = lose(recipe, target, batch)
    (received,) = drawn
    divergences = []
    with torch.no_grad():
        for row, column in batch.learn.nonzero().tolist():
            ids = batch.ids[row : row + 1, : column + 1]
            known = target.model(ids, use_cache=True)
            layers = [torch.cat([_flat(each.keys), _flat(each.values)], -1)[0] for each in known.past_key_values.layers]
            newest = int(received.newest[row, column])
            states = recipe.lsa(torch.stack(layers, 1)[: newest + 1])
            draft, positions = recipe.drafts[0], torch.arange(column + 1)[None]
            causal = torch.ones(column + 1, column + 1, dtype=torch.bool).tril()
            read = draft.read(target.embedding(ids), positions, masked_attention(causal))[:, -1:]
            memory = draft.ca.keys_values(draft.project_states(states)[None], positions[:, : newest + 1])
            out = draft.look_back(read, positions[:, -1:], full_attention, memory)
            given = log_softmax(target.head(out[0]), -1)
            wanted = log_softmax(known.logits[0, -1:], -1)
            divergences.append(kl_div(given, wanted, reduction="sum", log_target=True))
    assert float(parts.metrics["kl n=0"]) == pytest.approx(float(torch.stack(divergences).mean()), rel=1e-3)


@pytest.mark.parametrize("published", [False, True])
def test_the_targets_last_layers_see_what_was_received_of_its_own_and_elsewhere_predictions(
    target, monkeypatch, published
):
    recipe, batch = build(target, layers=(2,), size=2.0, published=published), random_batch(target)
    drawn, predicted, seen = [], [], []
    monkeypatch.setattr(moa, "draw_received", lambda *given: drawn.append(lags.draw_received(*given)) or drawn[-1])
    predict = recipe._predict
    monkeypatch.setattr(recipe, "_predict", lambda *given: predicted.append(predict(*given)) or predicted[-1])
    monkeypatch.setattr(moa, "through_tail", lambda tail, *given: seen.append(given) or given[0])
    lose(recipe, target, batch)
    (received,), (predictions,), ((entered, sources),) = drawn, predicted, seen
    known = torch.zeros_like(received.seen) if published else received.seen
    assert received.seen.any()
    assert torch.equal(sources.sees_known, known)
    assert torch.equal(sources.sees_predicted, torch.ones_like(known[:1]).tril() & ~known)
    given = features(target, batch, recipe.needs)
    assert torch.equal(sources.known, given.key_values[-2:])
    # At the published sync points the target's own hidden states stand in.
    stand_in = received.sync[..., None] & torch.tensor(published)
    assert torch.equal(entered, torch.where(stand_in, given.hidden[2], predictions))


@pytest.mark.parametrize(
    ("published", "share", "draw", "sees_all"),
    [
        (True, 0.0, 0.0, False),
        (True, 0.25, 0.5, False),
        (True, 0.25, 0.49, True),
        (True, 0.5, 0.99, True),
        (False, 0.0, 0.99, True),
    ],
)
def test_as_published_self_attention_sees_all_text_ever_more_often_until_half_of_the_run_is_done(
    target, monkeypatch, published, share, draw, sees_all
):
    """Until then it sees, so much less often, only what the state does not cover."""
    recipe, batch = build(target, layers=(0,), size=2.0, published=published), random_batch(target)
    given, received, seen = features(target, batch, recipe.needs), lags.draw_received(batch, lags.PUBLISHED), []
    monkeypatch.setattr(moa, "draw_received", lambda *_: received)
    predict = recipe._predict
    monkeypatch.setattr(recipe, "_predict", lambda *given: seen.append(given[3]) or predict(*given))
    monkeypatch.setattr(torch, "rand", lambda size: torch.tensor(draw))
    recipe.loss(batch, given, Moment(round(100 * share), 100))
    assert torch.equal(seen[0], lags.causal(batch.ids) if sees_all else received.since_sync)


def test_a_distance_is_squared_up_to_one_and_then_linear_and_of_learned_positions_alone():
    predicted, wanted = torch.tensor([[[0.5, 3.0], [9.0, 9.0], [1.0, -1.0]]]), torch.zeros(1, 3, 2)
    found = moa._distance(predicted, wanted, torch.tensor([[True, False, True]]))
    assert float(found) == pytest.approx((0.5**2 / 2 + (3.0 - 0.5) + 0.5 + 0.5) / 4)


def test_hidden_states_where_nothing_is_learned_count_for_nothing(target):
    recipe, batch = build(target, layers=(0, 1), size=2.0), random_batch(target)
    given = features(target, batch, recipe.needs)
    elsewhere = {depth: hidden + 9.0 * ~batch.learn[..., None] for depth, hidden in given.hidden.items()}
    totals = []
    for hidden in (given.hidden, elsewhere):
        torch.manual_seed(0)
        totals.append(float(recipe.loss(batch, replace(given, hidden=hidden), Moment(0, 1)).total.detach()))
    assert totals[0] == totals[1]


@pytest.mark.parametrize(("published", "of_divergence", "of_distance"), [(False, 1.0, 0.1), (True, 0.1, 1.0)])
def test_half_of_the_distance_is_that_to_what_enters_the_targets_last_layers(
    target, monkeypatch, published, of_divergence, of_distance
):
    recipe, batch = build(target, layers=(0, 1), size=2.0, published=published), random_batch(target)
    given = features(target, batch, recipe.needs)
    far = {id(given.hidden[0]): 6.0, id(given.hidden[1]): 2.0}
    monkeypatch.setattr(moa, "_distance", lambda predicted, wanted, learn: torch.tensor(far[id(wanted)]))
    parts = recipe.loss(batch, given, Moment(0, 1))
    divergence = sum(float(each) for each in parts.metrics.values()) / 2
    distance = (6.0 + (2.0 + 6.0) / 2) / 2
    assert float(parts.total.detach()) == pytest.approx(of_divergence * divergence + of_distance * distance, rel=1e-5)


def _flat(heads):
    return heads.transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"published": True},
        {"mixer": "mean"},
        {"mixer": "attention"},
        {"missing": 0.5},
        {"alone": 0.5},
        {"state_width": 9, "state_dtype": "int3"},
    ],
)
def test_every_form_learns(target, options):
    recipe = build(target, layers=(0, 1), size=2.0, **options)
    losses = train(recipe, target, random_batch(target), 60, 3e-3)
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])


@pytest.mark.parametrize("options", [{"published": True}, {"mixer": "attention"}])
def test_the_published_layer_fits_keys_of_any_width(tmp_path, options):
    """Nine query heads, which four do not divide; GPT-2 XL has fifty."""
    target = target_of(tmp_path, GPT2Config(n_embd=288, n_head=6, n_layer=2, vocab_size=300, n_positions=64))
    recipe = build(target, layers=(0,), **options)
    lose(recipe, target, random_batch(target)).total.backward()
    assert (recipe.config.lsa.heads, recipe.config.lsa.kv_heads) == (9, 1)


@pytest.mark.parametrize(("width", "heads"), [(768, (24, 6)), (1600, (50, 10)), (224, (7, 1))])
def test_the_published_layer_shares_its_keys_among_four_heads_or_as_few_more_as_divide_them(target, width, heads):
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(n_embd=width, n_head=width // 32, n_layer=1))
    wide = replace(target, model=model)
    layer = moa_config(wide, (0,), default_size(wide, "attention"), "attention").lsa
    assert (layer.heads, layer.kv_heads) == heads


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_drafted_for_at_every_depth(tmp_path, family):
    target = random_target(tmp_path, family)
    recipe = build(target, layers=(0, 1, target.config.num_hidden_layers), size=2.0)
    lose(recipe, target, random_batch(target)).total.backward()
    assert all(weights.grad is not None for weights in recipe.module.parameters())
    found = measure(recipe, target, PROMPTS, 12)
    assert set(found.by_depth) == {0, 1, target.config.num_hidden_layers}
    assert found.accept_length >= 1


def test_a_draft_that_replaces_no_layer_but_its_own_input_is_right_at_once(target):
    """With all of the target's layers below it, and states that tell the embedding nothing, only the embedding counts:
    a draft that passes it through proposes what the target will choose."""
    total = target.config.num_hidden_layers
    recipe = build(target, layers=(total,), size=2.0)
    for layer in (recipe.drafts[total].sa, recipe.drafts[total].ca):
        torch.nn.init.zeros_(layer.o_proj.weight)
        torch.nn.init.zeros_(layer.down_proj.weight)
    # A random target is so unsure that one level is all that is worth proposing.
    assert measure(recipe, target, PROMPTS, 40).accept_length > 1.9
    parts = lose(recipe, target, random_batch(target))
    assert float(parts.metrics[f"kl n={total}"]) < 1e-5


@pytest.mark.parametrize("size", [1.6, 2.0, 3.0])
def test_a_draft_is_as_large_as_asked(target, size):
    recipe = build(target, layers=(0,), size=size)
    trained = sum(weights.numel() for weights in recipe.module.parameters() if weights.ndim > 1)
    wanted = size * layer_parameters(target_layer(target))
    unit = 6 * target.config.hidden_size  # one more of each feed-forward part
    assert wanted - unit <= trained <= wanted


@pytest.mark.parametrize("mixer", ["mixture", "attention", "mean"])
def test_what_is_saved_is_what_was_trained(target, tmp_path, mixer):
    recipe = build(target, layers=(0, 1), size=2.0, mixer=mixer)
    train(recipe, target, random_batch(target), 3, 1e-3)
    recipe.save(tmp_path)
    for depth, draft in recipe.drafts.items():
        saved = load_moa(tmp_path, depth)[0].state_dict()
        assert all(torch.equal(saved[name], each.bfloat16().float()) for name, each in draft.state_dict().items())
    server = load_lsa(tmp_path).state_dict()
    assert set(server) == set(recipe.lsa.state_dict())
    assert all(torch.equal(server[name], each.bfloat16().float()) for name, each in recipe.lsa.named_parameters())
    assert all(torch.equal(server[name], each) for name, each in recipe.lsa.named_buffers())


@pytest.fixture(scope="module")
def finished(target, tmp_path_factory):
    """A draft that was trained a little, and its directory."""
    folder = tmp_path_factory.mktemp("finished")
    recipe = build(target, layers=(0, 1), size=2.0)
    train(recipe, target, random_batch(target), 3, 1e-3)
    recipe.save(folder)
    return folder


def test_a_draft_starts_as_the_finished_one_that_it_is_given(target, finished):
    started = build(target, start=finished)
    assert set(started.drafts) == {0, 1}
    lose(started, target, random_batch(target))  # the first step calibrates nothing anew
    for ours, saved in ((started.drafts[1], load_moa(finished, 1)[0]), (started.lsa, load_lsa(finished))):
        assert all(torch.equal(each, saved.state_dict()[name].float()) for name, each in ours.state_dict().items())


def test_a_codec_starts_as_the_linear_one_that_loses_least(target, finished):
    """Eckart and Young: what the best map of a given rank loses are the singular values that it leaves out."""
    wanted = torch.cat([load_moa(finished, depth)[0].project.weight.float() for depth in (0, 1)])
    left_out = torch.linalg.svdvals(wanted)
    for width in (4, 20, wanted.shape[1]):
        started = build(target, start=finished, state_width=width)
        found = torch.cat([draft.project.weight for draft in started.drafts.values()]) @ started.lsa.encode.weight
        assert float((found - wanted).detach().norm()) == pytest.approx(float(left_out[width:].norm()), abs=1e-4)


def test_as_many_numbers_as_a_state_has_lose_nothing_but_their_rounding(target, finished):
    plain, exact, coarse = (
        lose(build(target, start=finished, **options), target, random_batch(target)).total.detach()
        for options in ({}, {"state_dtype": "float16"}, {"state_dtype": "int3"})
    )
    assert float(exact) == pytest.approx(float(plain), rel=1e-4)
    assert float(coarse) != pytest.approx(float(plain), rel=1e-4)


def test_a_codec_trains_on_both_sides_and_is_saved_with_its_rate(target, tmp_path):
    recipe, batch = build(target, layers=(0, 1), size=2.0, state_width=9), random_batch(target)
    lose(recipe, target, batch).total.backward()
    for weights in (recipe.lsa.encode.weight, recipe.lsa.mixer.gate, recipe.drafts[1].project.weight):
        assert weights.grad is not None
        assert bool(weights.grad.any())
    recipe.save(tmp_path)
    assert read_moa_config(tmp_path) == recipe.config
    assert recipe.config.codec == StateCodec(9, "int4")
    assert torch.equal(load_lsa(tmp_path).encode.weight, recipe.lsa.encode.weight.bfloat16().float())
    assert measure(recipe, target, PROMPTS, 12).accept_length >= 1


def test_a_trimmed_head_keeps_what_was_learned_most(target, tmp_path):
    recipe, batch = build(target, layers=(0,), size=2.0, draft_vocabulary=7), random_batch(target)
    train(recipe, target, batch, 3, 1e-3)
    recipe.save(tmp_path)
    kept = load_moa(tmp_path, 0)[1]
    counts = torch.bincount(batch.targets)
    assert len(kept) == 7
    assert int(counts.max()) == int(counts[kept[kept < len(counts)]].max())
    assert measure(recipe, target, PROMPTS, 12).accept_length >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": (0, 9)}, "--layers"),
        ({"layers": ()}, "--layers"),
        ({"size": 0.1}, "--size"),
        ({"mixer": "sum"}, "--mixer"),
        ({"missing": 1.5}, "--missing"),
        ({"alone": -0.1}, "--alone"),
        ({"state_width": 0}, "--state-width must be from 1 to the"),
        ({"state_width": 1000}, "--state-width must be from 1 to the"),
        ({"state_dtype": "int6"}, "--state-dtype must be one of int8, float16, int4, int3, not int6"),
    ],
)
def test_impossible_options_are_refused(target, options, message):
    with pytest.raises(MisuseError, match=message):
        build(target, **{"layers": (0,), **options})


@pytest.mark.parametrize("options", [{"size": 2.0}, {"mixer": "mean"}, {"published": True}])
def test_sizes_beside_a_draft_to_start_from_are_refused(target, finished, options):
    with pytest.raises(MisuseError, match="leave out --size, --mixer and --published"):
        build(target, start=finished, **options)


def test_a_draft_to_start_from_is_of_this_target_and_has_these_layers_and_no_codec(target, finished, tmp_path):
    with pytest.raises(MisuseError, match="this draft runs 0, 1 of the target's layers, not 3"):
        build(target, layers=(3,), start=finished)
    build(target, layers=(0,), size=2.0, state_width=9).save(tmp_path / "narrow")
    with pytest.raises(MisuseError, match="has a learnt codec already; name one without"):
        build(target, start=tmp_path / "narrow", state_width=5)
    with pytest.raises(OutriderError, match="was trained for another target"):
        build(random_target(tmp_path, "qwen3"), start=finished)


def test_a_target_whose_layers_have_keys_of_different_widths_is_refused(tmp_path):
    with pytest.raises(MisuseError, match=r"different widths in target \(16 and 24 numbers a layer\); train eagle3"):
        build(load_target(str(make_family_checkpoint(tmp_path / "target", GEMMA_4)), torch.device("cpu"), "float32"))
