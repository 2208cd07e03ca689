"""The eagle3 recipe: its steps are the rows that a drafter computes behind the newest state, its loss is as published,
and what it saves is what it was."""

import pytest
import torch
from torch.nn.functional import log_softmax, smooth_l1_loss, softmax

from common.draft_models.directory import check_fingerprint, check_sizes, read_draft_kind
from common.draft_models.eagle3 import TAPS, load_eagle3, load_fuse, read_facts, read_taps
from common.draft_models.layers import masked_attention
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
from training.draft_models.features import features
from training.draft_models.recipe import Batch, Moment
from training.draft_models.recipes.eagle3 import build, learned_taps, steps_at

END = Moment(9, 10)
"""When all steps run."""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("eagle3"))


@torch.no_grad()
def expected_step(recipe, target, ids, learn, step):
    """Of one step, place by place: a chain of rows, the last `step` of them on the draft's own output, the
    cross-entropy with the target's distribution, the distance to the state in whose place that output stands, and
    whether the likeliest token is the target's."""
    left = []
    hook = target.model.model.norm.register_forward_pre_hook(lambda _, entered: left.append(entered[0]))
    out = target.model.model(ids[None], output_hidden_states=True)
    hook.remove()
    states = (*out.hidden_states[:-1], *left)
    fused = recipe.fuse(torch.cat([states[tap][0] for tap in recipe.taps], -1))
    embedded = target.embedding(ids)
    found = []
    for index in range(1 + step, len(ids)):
        if not learn[index]:
            continue
        features = fused[: index - step]
        for length in range(index - step, index + 1):
            causal = torch.ones(length, length, dtype=torch.bool).tril()
            entered = recipe.draft.enter(embedded[None, 1 : length + 1], features[None])
            own = recipe.draft(entered, torch.arange(length)[None], masked_attention(causal))[0, -1:]
            features = torch.cat([features, own])
        given = log_softmax(recipe.draft.logits(own[0], target.head), -1)
        likely = softmax(target.head(out.last_hidden_state[0, index]), -1)
        soft, agreed = -(likely * given).sum(), (likely.argmax() == given.argmax()).float()
        found.append(torch.stack([soft, smooth_l1_loss(own[0], fused[index]), agreed]))
    return found


@pytest.mark.parametrize(
    ("steps", "weight", "of_one_position"), [(1, 1.0, False), (4, 0.0, False), (4, 3.0, False), (4, 3.0, True)]
)
def test_the_loss_is_that_of_chains_on_its_own_output(target, steps, weight, of_one_position):
    recipe, batch = build(target, feedback_steps=steps, feature_weight=weight), random_batch(target)
    if of_one_position:
        batch = learning_only(batch, 6)
    means = torch.stack(
        [
            torch.stack(
                [
                    found
                    for ids, learn, length in zip(batch.ids, batch.learn, batch.lengths.tolist(), strict=True)
                    for found in expected_step(recipe, target, ids[:length], learn, step)
                ]
            ).mean(0)
            for step in range(steps)
        ]
    )
    soft, distance, agreed = means.unbind(1)
    weights = 0.8 ** torch.arange(steps)
    total = ((soft + weight * distance) * weights).sum() / weights.sum()
    parts = lose(recipe, target, batch, END)
    torch.testing.assert_close(parts.total.detach(), total, rtol=1e-4, atol=1e-5)
    agreements = {f"agreement {step + 1}": each for step, each in enumerate(agreed)}
    expected = {"soft": soft[0], "smooth_l1": distance[0], **agreements}
    torch.testing.assert_close(dict(parts.metrics), expected, rtol=1e-4, atol=1e-5)


def test_the_steps_grow_while_it_trains(target):
    assert [steps_at(share / 20, 7) for share in range(20)] == [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, *[7] * 5]
    assert [steps_at(share / 20, 1) for share in range(20)] == [1] * 20
    recipe, batch = build(target), random_batch(target)
    for done, steps in ((0, 1), (5, 3), (19, 7)):
        metrics = lose(recipe, target, batch, Moment(done, 20)).metrics
        assert [name for name in metrics if name.startswith("agreement")] == [
            f"agreement {step + 1}" for step in range(steps)
        ]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_samples_shorter_than_the_steps_are_no_problem(target, columns):
    batch = random_batch(target)
    short = Batch(batch.ids[:, :columns], torch.ones(3, columns, dtype=torch.bool), torch.full((3,), columns))
    short.learn[:, -1] = False
    if columns == 1:
        short.learn[:, 0] = True
    parts = lose(build(target), target, short, END)
    parts.total.backward()
    assert parts.total.isfinite()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_learns_and_what_is_saved_is_what_was_measured(tmp_path, family):
    target = random_target(tmp_path, family)
    recipe, batch = build(target, feedback_steps=3, feature_weight=0), random_batch(target, rows=8)
    before = measure(recipe, target, PROMPTS, 12).accept_length
    likely = softmax(features(target, batch, recipe.needs).logits, -1)
    least = float(-(likely * likely.log()).sum(-1).mean())  # of a draft that knows the target's distribution
    losses = train(recipe, target, batch, 60, 1e-2)
    assert losses[-1] - least < 0.25 * (losses[0] - least)
    own = [row[:6].tolist() for row in batch.ids]
    assert measure(recipe, target, own, 12).accept_length > 1.5 * before
    recipe.save(tmp_path / "draft")
    assert read_draft_kind(tmp_path / "draft").name == "eagle3"
    check_fingerprint(tmp_path / "draft", target.fingerprint)
    check_sizes(tmp_path / "draft", read_facts(tmp_path / "draft"), target.config)
    assert read_taps(tmp_path / "draft", target.config.num_hidden_layers) == recipe.taps
    draft, kept = load_eagle3(tmp_path / "draft")
    assert kept is None
    assert draft.config == recipe.draft.config
    for name, tensor in recipe.draft.state_dict().items():
        assert torch.equal(draft.state_dict()[name], tensor.bfloat16())
    assert torch.equal(load_fuse(tmp_path / "draft").weight, recipe.fuse.weight.bfloat16())


@pytest.mark.parametrize("kv_heads", [2, 6])
def test_at_the_start_a_third_of_the_heads_look_at_their_rows_own_token(target, kv_heads):
    recipe, columns, own = build(target, kv_heads=kv_heads), 24, []

    def attend(queries, keys, values):
        keys, values = (each.repeat_interleave(queries.shape[1] // keys.shape[1], 1) for each in (keys, values))
        scores = queries @ keys.mT * queries.shape[-1] ** -0.5
        weights = scores.masked_fill(torch.ones(columns, columns).triu(1).bool(), -torch.inf).softmax(-1)
        own.append(weights.diagonal(dim1=-2, dim2=-1))
        return (weights @ values).transpose(1, 2).flatten(2)

    torch.manual_seed(0)
    embedded = target.embedding(torch.randperm(300)[:columns])[None]
    entered = recipe.draft.enter(embedded, torch.randn_like(embedded))
    recipe.draft(entered, torch.arange(columns)[None], attend)
    # Equal weights for all rows would be 0.16 in the mean, as they nearly are in heads that are free.
    looking = max(1, kv_heads // 3) * own[0].shape[1] // kv_heads
    assert own[0][:, :looking].mean() > 0.5
    assert own[0][:, looking:].mean() < 0.25


def test_the_distance_moves_outputs_and_not_the_states_they_are_to_equal(target):
    """A fusing layer that came nearer to the outputs would in the end send nothing."""
    recipe, batch, fused = build(target, feedback_steps=1), random_batch(target), []
    recipe.fuse.register_forward_hook(lambda _, given, found: fused.append(found))
    (gradient,) = torch.autograd.grad(lose(recipe, target, batch).total, fused)
    # No learned row reads the state of the last learned position, which is one that an output is to equal.
    assert batch.learn[0, -2]
    assert gradient[0, -3].abs().max() > 0
    assert gradient[0, -2].abs().max() == 0


def test_at_the_start_the_feature_is_the_last_tap_most_of_all(target):
    recipe, size = build(target), target.config.hidden_size
    states = torch.randn(200, TAPS * size)
    found = recipe.fuse(states)
    alike = [torch.cosine_similarity(found, tap, dim=-1).mean() for tap in states.split(size, dim=-1)]
    assert alike[-1] > 0.8
    assert max(map(abs, alike[:-1])) < 0.2


def test_it_reads_what_leaves_the_last_layer_of_a_deep_target_too():
    assert [learned_taps(layers) for layers in (1, 2, 4, 12, 32)] == [
        (0, 0, 1),
        (1, 1, 2),
        (1, 2, 4),
        (2, 6, 12),
        (2, 16, 32),
    ]


def test_its_head_keeps_what_was_learned_most(tmp_path, target):
    recipe, batch = build(target, draft_vocabulary=5), random_batch(target)
    train(recipe, target, batch, 2, 1e-3)
    counts = torch.bincount(batch.targets, minlength=300)
    recipe.save(tmp_path)
    draft, kept = load_eagle3(tmp_path)
    ends = sorted(target.end_tokens)
    assert set(ends) < set(kept.tolist())
    counts[ends] = 0
    assert counts[kept].sum() == counts.topk(5 - len(ends)).values.sum()
    assert torch.equal(draft.head.weight, recipe.draft.head.weight[kept].bfloat16())
    assert measure(recipe, target, PROMPTS, 8).accept_length >= 1
    assert recipe.describe()["draft vocabulary"] == "the 5 most frequent tokens of the text"
    for size in (0, 301):
        with pytest.raises(MisuseError, match="--draft-vocabulary"):
            build(target, draft_vocabulary=size)


def test_a_large_vocabulary_is_trimmed_by_itself(target, monkeypatch):
    assert build(target).describe()["draft vocabulary"] == "the target's"
    monkeypatch.setattr("training.draft_models.recipes.eagle3.DRAFT_VOCABULARY", 100)
    assert build(target).counts.size == 100


def test_it_may_have_more_key_value_heads_than_the_target(tmp_path, target):
    recipe = build(target, kv_heads=6)
    recipe.save(tmp_path)
    draft, _ = load_eagle3(tmp_path)
    assert draft.config.layer.kv_heads == 6 != target.config.num_key_value_heads
    assert measure(recipe, target, PROMPTS, 8).accept_length >= 1
    assert recipe.describe()["key/value heads"] == "6"


def test_impossible_options_are_refused(target):
    assert build(target, intermediate=10).draft.layer.gate_proj.weight.shape == (10, 48)
    for heads in (0, 4):
        with pytest.raises(MisuseError, match="--kv-heads must divide the target's 6 heads"):
            build(target, kv_heads=heads)
    with pytest.raises(MisuseError, match="--feature-weight must not be below 0"):
        build(target, feature_weight=-1)
    for options in ({"intermediate": 0}, {"feedback_steps": 0}):
        with pytest.raises(MisuseError, match="at least 1"):
            build(target, **options)
