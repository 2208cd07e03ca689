"""The recipes of Hydra's and Clover's heads: each head learns the token it stands for behind the true path, and what is
saved is what was trained."""

import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax, softmax

from common.draft_models.clover import load_clover
from common.draft_models.hydra import load_hydra
from common.draft_models.layers import masked_attention
from common.protocol.errors import MisuseError
from tests.training.draft_models.rehearsal import learning_only, lose, measure, random_batch, random_target, train
from training.draft_models.path_heads import PathHeadsTraining
from training.draft_models.recipe import Batch
from training.draft_models.recipes import clover, hydra

RECIPES = {
    "hydra": (hydra.build, {}, load_hydra),
    "hydra shared": (hydra.build, {"shared_head": True}, load_hydra),
    "hydra++": (hydra.build, {"plus": True, "blocks": 2}, load_hydra),
    "clover": (clover.build, {}, load_clover),
    "clover distilled": (clover.build, {"distil": True}, load_clover),
}
DISTILLED = ("hydra++", "clover distilled")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("heads"))


@pytest.fixture(params=RECIPES)
def named(request):
    build, options, load = RECIPES[request.param]
    return request.param, lambda target: build(target, **options), load


def expected_loss(recipe, target, batch, distilled):
    """Those of heads k = 1, 2, ... with weights 0.8^k."""
    heads = expected_heads(recipe, target, batch, distilled)
    return sum(0.8 ** (head + 1) * loss for head, (loss, _) in enumerate(heads))


@torch.no_grad()
def expected_heads(recipe, target, batch, distilled):
    """Of each head the mean over its places of the cross-entropy with the token, or with what the target itself says
    there, row by row and place by place; and how often its likeliest token is the one that came."""
    rows = []
    for ids, learn, length in zip(batch.ids, batch.learn, batch.lengths.tolist(), strict=True):
        hidden = target.model.model(ids[None, :length]).last_hidden_state
        base = hidden
        if recipe.draft.prefix is not None:
            causal = masked_attention(torch.ones(length, length, dtype=torch.bool).tril())
            base = recipe.draft.prefix(hidden, torch.arange(length)[None], causal)
        rows.append((ids, learn.tolist(), length, hidden, base, target.embedding(ids)))
    for head in range(recipe.draft.config.heads):
        losses, right = [], []
        for ids, learn, length, hidden, base, embedded in rows:
            for index in range(length - head - 2):
                if learn[index] and learn[index + head + 1]:
                    path = embedded[None, index + 1 : index + head + 2]
                    logits = recipe.draft.logits(base[:, index], path, target.head)[0]
                    likely = softmax(target.head(hidden[0, index + head + 1]), -1)
                    soft = -(likely * log_softmax(logits, -1)).sum()
                    losses.append(soft if distilled else cross_entropy(logits, ids[index + head + 2]))
                    right.append((logits.argmax() == ids[index + head + 2]).float())
        yield torch.stack(losses).mean(), torch.stack(right).mean()


@pytest.mark.parametrize("few", [False, True])
def test_each_head_learns_what_it_stands_for_behind_the_true_path(target, named, few):
    name, build, _ = named
    recipe, batch = build(target), random_batch(target)
    if few:
        batch = learning_only(batch, 6, count=recipe.draft.config.heads + 1)  # of which the last head has one
    torch.manual_seed(1)
    for parameter in recipe.draft.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    expected = expected_loss(recipe, target, batch, name in DISTILLED)
    torch.testing.assert_close(lose(recipe, target, batch).total.detach(), expected, rtol=1e-3, atol=1e-3)


def test_it_learns_drafts_and_saves_what_it_is(tmp_path, target, named):
    name, build, load = named
    recipe, batch = build(target), random_batch(target, rows=8)
    own = [row[:6].tolist() for row in batch.ids]
    before = measure(recipe, target, own, 12).accept_length
    losses = train(recipe, target, batch, 40, 1e-2 if recipe.draft.prefix is None else 5e-3)
    # A distribution's cross-entropy with itself is no less than its entropy, which is most of a random target's loss.
    assert losses[-1] < losses[0] * (0.9 if name in DISTILLED else 0.7)
    metrics = lose(recipe, target, batch).metrics
    for head, (_, right) in enumerate(expected_heads(recipe, target, batch, name in DISTILLED)):
        torch.testing.assert_close(metrics[f"head {head + 1}"], right)
        assert right > 0
    assert measure(recipe, target, own, 12).accept_length > 1.3 * before
    recipe.save(tmp_path)
    for key, tensor in load(tmp_path).state_dict().items():
        assert torch.equal(tensor, recipe.draft.state_dict()[key].to(torch.bfloat16))


def test_samples_too_short_for_some_heads_are_no_problem(target, named):
    ids = random_batch(target).ids[:, :4]
    short = Batch(ids, torch.tensor([[False, False, True, False]] * 3), torch.full((3,), 4))
    parts = lose(named[1](target), target, short)
    parts.total.backward()
    assert parts.total == 0


def test_sizes_below_one_are_refused(target):
    for build, options in ((hydra.build, {"heads": 0}), (hydra.build, {"blocks": 0}), (clover.build, {"heads": 0})):
        with pytest.raises(MisuseError, match="at least 1"):
            build(target, **options)


@pytest.mark.parametrize("weights", [(-0.1, 1.0, 0.0), (0.8, -0.1, 1.0), (0.8, 1.0, -0.1), (0.8, 0.0, 0.0)])
def test_weights_that_teach_nothing_or_the_opposite_are_refused(target, weights):
    draft = hydra.build(target).draft
    with pytest.raises(MisuseError, match="must not be below 0, nor both 0"):
        PathHeadsTraining("hydra", target, draft, *weights)
    PathHeadsTraining("hydra", target, draft, decay=0.0, hard=0.0, soft=1.0)
