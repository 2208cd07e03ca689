"""The eagle recipe: its losses as published, its features aligned as at inference, and what it saves is what it was."""

import pytest
import torch
from torch.nn.functional import log_softmax, smooth_l1_loss, softmax

from common.draft_models.directory import check_fingerprint
from common.draft_models.eagle import load_eagle
from common.draft_models.layers import masked_attention
from common.models.errors import CheckpointError
from common.protocol.errors import MisuseError
from tests.families import FAMILIES
from tests.training.draft_models.rehearsal import (
    PROMPTS,
    learning_only,
    lose,
    measure,
    random_batch,
    random_target,
    train,
)
from training.draft_models.recipe import Batch
from training.draft_models.recipes.eagle import build


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("eagle"))


@torch.no_grad()
def expected_parts(recipe, target, batch):
    """Smooth-L1, soft and hard cross-entropy without noise, row by row and place by place, as the paper has them; and
    how often draft and target have the same likeliest token."""
    features, soft, hard, agreed = [], [], [], []
    for ids, learn, length in zip(batch.ids, batch.learn, batch.lengths.tolist(), strict=True):
        hidden = target.model.model(ids[None, :length]).last_hidden_state
        embedded = target.embedding(ids[None, 1:length])
        causal = torch.ones(length - 1, length - 1, dtype=torch.bool).tril()
        entered = recipe.draft.enter(embedded, hidden[:, :-1])
        predicted = recipe.draft(entered, torch.arange(length - 1)[None], masked_attention(causal))[0]
        for index in range(1, length):
            if learn[index]:
                given, wanted = predicted[index - 1], hidden[0, index]
                features.append(smooth_l1_loss(given, wanted))
                likely, logps = softmax(target.head(wanted), -1), log_softmax(target.head(given), -1)
                soft.append(-(likely * logps).sum())
                hard.append(-logps[ids[index + 1]])
                agreed.append((likely.argmax() == logps.argmax()).float())
    return [torch.stack(each).mean() for each in (features, soft, hard, agreed)]


@pytest.mark.parametrize("of_one_position", [False, True])
def test_the_losses_are_those_published(target, of_one_position):
    recipe, batch = build(target, noise=0.0), random_batch(target)
    if of_one_position:
        batch = learning_only(batch, 6)
    parts = lose(recipe, target, batch)
    feature, soft, hard, _ = expected_parts(recipe, target, batch)
    torch.testing.assert_close(parts.metrics["smooth_l1"], feature, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.metrics["soft"], soft, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.metrics["hard"], hard, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.total.detach(), feature + 0.1 * soft, rtol=1e-4, atol=1e-5)


def test_weights_are_options(target):
    batch = random_batch(target)
    parts = lose(build(target, feature_weight=0.5, soft_weight=0.25, hard_weight=2.0), target, batch)
    expected = 0.5 * parts.metrics["smooth_l1"] + 0.25 * parts.metrics["soft"] + 2 * parts.metrics["hard"]
    torch.testing.assert_close(parts.total.detach(), expected)
    for options in (
        {"feature_weight": 0, "soft_weight": 0},
        *({name: -0.1} for name in ("feature_weight", "soft_weight", "hard_weight", "noise")),
    ):
        with pytest.raises(MisuseError, match="weights"):
            build(target, **options)


def test_noise_is_uniform_and_narrower_in_longer_samples(target):
    """At 24 tokens, 0.2 wide at 512 is 4.27 wide."""
    recipe, batch = build(target), random_batch(target)
    seen = {}

    def note(embedded, features):
        seen["noise"] = features - target.model.model(batch.ids).last_hidden_state[:, :-1]
        return enter(embedded, features)

    enter, recipe.draft.enter = recipe.draft.enter, note
    lose(recipe, target, batch)
    widest = seen["noise"].abs().amax(dim=(1, 2))
    assert widest[0] == pytest.approx(0.1 * 512 / 24, rel=0.02)
    assert widest[1] == pytest.approx(0.1 * 512 / 18, rel=0.02)
    assert seen["noise"].mean().abs() < 0.1


def test_a_sample_that_is_learned_from_its_first_token_on_is_no_problem(target):
    ids = random_batch(target).ids[:, :2]
    only_first = Batch(ids, torch.tensor([[True, False]] * 3), torch.full((3,), 2))
    parts = lose(build(target), target, only_first)
    parts.total.backward()
    assert parts.total == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_it_learns_and_what_is_saved_is_what_was_measured(tmp_path, family):
    target = random_target(tmp_path, family)
    recipe, batch = build(target, hard_weight=1.0, noise=0.0), random_batch(target, rows=8)
    before = measure(recipe, target, PROMPTS, 12).accept_length
    losses = train(recipe, target, batch, 60, 1e-2)
    assert losses[-1] < 0.5 * losses[0]
    agreement = lose(recipe, target, batch).metrics["agreement"]
    torch.testing.assert_close(agreement, expected_parts(recipe, target, batch)[-1])
    assert agreement > 0
    own = [row[:6].tolist() for row in batch.ids]
    assert measure(recipe, target, own, 12).accept_length > 1.5 * before
    recipe.save(tmp_path / "draft")
    check_fingerprint(tmp_path / "draft", target.fingerprint)
    with pytest.raises(CheckpointError, match="another target"):
        check_fingerprint(tmp_path / "draft", "0" * 64)
    draft, kept = load_eagle(tmp_path / "draft")
    assert kept is None
    assert draft.config == recipe.draft.config
    for name, tensor in recipe.draft.state_dict().items():
        assert torch.equal(draft.state_dict()[name], tensor.bfloat16())


def test_a_trimmed_head_keeps_what_was_learned_most(tmp_path, target):
    recipe, batch = build(target, draft_vocabulary=5), random_batch(target)
    train(recipe, target, batch, 2, 1e-3)
    lose(recipe, target, batch)  # while it is measured, nothing is counted
    counts = torch.bincount(batch.targets, minlength=300)
    assert torch.equal(recipe.module.state_dict()["counts.counts"], 2 * counts)
    recipe.save(tmp_path)
    kept = load_eagle(tmp_path)[1]
    ends = sorted(target.end_tokens)
    assert set(ends) < set(kept.tolist())
    counts[ends] = 0
    assert counts[kept].sum() == counts.topk(5 - len(ends)).values.sum()
    assert measure(recipe, target, PROMPTS, 8).accept_length >= 1
    for size in (0, 301):
        with pytest.raises(MisuseError, match="--draft-vocabulary"):
            build(target, draft_vocabulary=size)


def test_the_feed_forward_width_is_an_option(target):
    assert build(target, intermediate=10).draft.layer.gate_proj.weight.shape == (10, 48)
    with pytest.raises(MisuseError, match="--intermediate"):
        build(target, intermediate=0)
