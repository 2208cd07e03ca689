"""The medusa recipe: which head learns which token, what Medusa-2 does to the target, and the tree's calibration."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from common.draft_models.medusa import assumed_accuracies, load_medusa, sparse_tree
from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.fingerprint import fingerprint
from common.protocol.errors import MisuseError
from common.rounds import RoundsAnswer
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from tests.training.draft_models.rehearsal import (
    PROMPTS,
    learning_only,
    lose,
    measure,
    random_batch,
    random_target,
    train,
)
from training.draft_models.features import load_target
from training.draft_models.recipe import Batch, Moment
from training.draft_models.recipes import medusa
from training.draft_models.recipes.medusa import HEADS_ONLY_SHARE, MedusaRecipe, build


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("medusa"))


def expected_loss(recipe, target, batch):
    """Cross-entropies of heads k = 1, 2, ... with weights 0.8^k, place by place."""
    return sum(0.8 ** (index + 1) * loss for index, (loss, _) in enumerate(expected_heads(recipe, target, batch)))


@torch.no_grad()
def expected_heads(recipe, target, batch):
    """Of each head the cross-entropy with the tokens that it stands for, and how often its likeliest is right."""
    for index in range(recipe.draft.config.heads):
        losses, right = [], []
        for ids, learn, length in zip(batch.ids, batch.learn, batch.lengths.tolist(), strict=True):
            hidden = target.model.model(ids[None, :length]).last_hidden_state[0]
            for position in range(length - index - 2):
                if learn[position] and learn[position + index + 1]:
                    logits = recipe.draft.logits(index, hidden[position], target.head)
                    losses.append(cross_entropy(logits, ids[position + index + 2]))
                    right.append((logits.argmax() == ids[position + index + 2]).float())
        yield torch.stack(losses).mean(), torch.stack(right).mean()


@pytest.mark.parametrize("shared_head", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_each_head_learns_the_token_it_stands_for(target, shared_head, few):
    recipe, batch = build(target, shared_head=shared_head), random_batch(target)
    if few:
        batch = learning_only(batch, 6, count=5)  # of which the last head has one
    for parameter in recipe.draft.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    torch.testing.assert_close(
        lose(recipe, target, batch).total.detach(), expected_loss(recipe, target, batch), rtol=1e-4, atol=1e-4
    )


def test_samples_too_short_for_some_heads_are_no_problem(target):
    ids = random_batch(target).ids[:, :4]
    short = Batch(ids, torch.tensor([[False, False, True, False]] * 3), torch.full((3,), 4))
    parts = lose(build(target), target, short)
    parts.total.backward()
    assert parts.total == 0


@pytest.mark.parametrize("shared_head", [False, True])
def test_it_learns_and_its_tree_is_calibrated(tmp_path, target, shared_head):
    recipe, batch = build(target, shared_head=shared_head, blocks=2), random_batch(target, rows=8)
    own = [row[:6].tolist() for row in batch.ids]
    before = measure(recipe, target, own, 12).accept_length
    losses = train(recipe, target, batch, 80, 1e-2)
    assert losses[-1] < 0.5 * losses[0]
    metrics = lose(recipe, target, batch).metrics
    for index, (_, right) in enumerate(expected_heads(recipe, target, batch)):
        torch.testing.assert_close(metrics[f"head {index + 1}"], right)
        assert right > 0
    weights = {name: tensor.clone() for name, tensor in recipe.draft.state_dict().items()}
    found = measure(recipe, target, own, 12)
    assert found.accept_length > 1.5 * before
    assert found.details["head 1"] > 0.5
    for name, tensor in weights.items():
        assert torch.equal(recipe.draft.state_dict()[name], tensor)
    assert recipe.save(tmp_path) is None, "it fits the target that was given"
    read = load_medusa(tmp_path)
    assert read.config.accuracies == recipe.accuracies.table()
    assert read.config.accuracies[0][0] == found.details["head 1"]


def test_one_prompt_is_enough_to_measure(target):
    assert measure(build(target), target, PROMPTS[:1], 8).accept_length >= 1


def test_each_prompt_is_answered_with_a_tree_that_was_chosen_from_others(target, monkeypatch):
    recipe, asked = build(target), []

    def answer(self, _, prompts, size, table):
        asked.append((prompts, float(table[0, 0])))
        return [RoundsAnswer((7, 8), 1, 1, (), 0) for _ in prompts]

    monkeypatch.setattr(MedusaRecipe, "_answer", answer)
    first = lambda _, __, ___, samples: torch.full((4, 10), samples[0][0][0], dtype=torch.float64)  # noqa: E731
    monkeypatch.setattr(medusa, "measure_accuracies", first)
    prompts = [[10], [20], [10], [20], [10]]
    measure(recipe, target, prompts, 8)
    assert asked[2:] == [(prompts[::2], 20.0), (prompts[1::2], 10.0)]
    # What is saved is of all prompts: three of five begin with 10.
    assert recipe.accuracies.table() == ((pytest.approx(0.6 * 10.0 + 0.4 * 20.0),) * 10,) * 4
    measure(recipe, target, prompts[:1], 8)
    assert asked[-1] == (prompts[:1], assumed_accuracies(4)[0][0])


@pytest.mark.parametrize("shared_head", [False, True])
def test_medusa_2_first_leaves_the_target_alone_and_then_trains_it(tmp_path, target, shared_head):
    recipe, batch = build(target, train_target=True, shared_head=shared_head), random_batch(target)
    given = target.model.state_dict()
    assert recipe.tuning.rate_scales == {"draft.": 4.0}
    first = lose(recipe, target, batch, Moment(0, 10))
    first.total.backward()
    backbone = recipe.module["target"]
    assert all(parameter.grad is None for parameter in backbone.parameters())
    assert any(parameter.grad is not None for parameter in recipe.draft.parameters())
    torch.testing.assert_close(first.total.detach(), expected_loss(recipe, target, batch), rtol=1e-4, atol=1e-4)
    later = lose(recipe, target, batch, Moment(int(10 * HEADS_ONLY_SHARE), 10))
    later.total.backward()
    assert all(parameter.grad is not None for parameter in backbone.model.layers.parameters())
    with torch.no_grad():
        own = cross_entropy(target.model(batch.ids).logits[batch.learn], batch.targets)
    expected = own + 0.2 * expected_loss(recipe, target, batch)
    torch.testing.assert_close(later.total.detach(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(later.metrics["target"], own, rtol=1e-4, atol=1e-4)
    assert set(later.metrics) == {*first.metrics, "target"}

    train(recipe, target, batch, 20, 1e-2)
    measure(recipe, target, PROMPTS, 6)
    assert recipe.save(tmp_path) == tmp_path / "target"
    made = load_causal_lm(tmp_path / "target")
    for name, tensor in backbone.state_dict().items():
        torch.testing.assert_close(made.state_dict()[name], tensor)
    assert any(not torch.equal(tensor, given[name]) for name, tensor in made.state_dict().items())
    assert load_tokenizer(tmp_path / "target").get_vocab() == target.tokenizer.get_vocab()
    content = (tmp_path / "config.json").read_text()
    assert fingerprint(tmp_path / "target") in content
    assert target.fingerprint not in content
    lose(recipe, target, batch).total.backward()  # it can still be trained


@pytest.mark.parametrize("family", ["gemma2", "gpt-oss", "llama4"])
def test_medusa_2_trains_and_saves_families_with_other_attention_or_names(tmp_path, family):
    target = load_target(
        str(make_family_checkpoint(tmp_path / "given", FAMILIES[family])), torch.device("cpu"), "float32"
    )
    recipe, batch = build(target, train_target=True), random_batch(target)
    for step in (0, 9):
        lose(recipe, target, batch, Moment(step, 10)).total.backward()
    assert any(parameter.grad is not None for parameter in recipe.module["target"].parameters())
    recipe.save(tmp_path)
    made = load_causal_lm(tmp_path / "target")
    torch.testing.assert_close(made(batch.ids).logits, recipe.module["target"](batch.ids).logits)


def test_a_trained_target_is_measured_with_the_frequencies_that_its_checkpoint_has(tmp_path):
    """In bfloat16 they would turn keys far away by whole radians."""
    target = random_target(tmp_path, dtype="bfloat16")
    recipe = build(target, train_target=True)
    measured = medusa._with_model(target, recipe.module["target"]).model
    assert {each.dtype for each in measured.parameters()} == {torch.bfloat16}
    trained = dict(recipe.module["target"].named_buffers())
    assert trained
    torch.testing.assert_close(dict(measured.named_buffers()), trained, rtol=0, atol=0)


def test_medusa_1_trains_heads_alone(target):
    recipe = build(target)
    assert [name.split(".")[0] for name, _ in recipe.module.named_parameters()] == ["draft"] * 12


def test_sizes_below_one_are_refused(target):
    for options in ({"heads": 0}, {"blocks": 0}):
        with pytest.raises(MisuseError, match="at least 1"):
            build(target, **options)


def test_a_chain_is_drafted_where_that_was_asked_for(tmp_path, target):
    """Blockwise Parallel Decoding: the likeliest token of each head alone, of the target's own head."""
    recipe, batch = build(target, shared_head=True, chain=True), random_batch(target, rows=8)
    train(recipe, target, batch, 80, 1e-2)
    own = [row[:6].tolist() for row in batch.ids]
    assert measure(recipe, target, own, 12).accept_length > 1.5
    recipe.save(tmp_path)
    accuracies = load_medusa(tmp_path).config.accuracies
    assert [len(head) for head in accuracies] == [1] * 4
    assert set(sparse_tree(accuracies, 64)) <= {(0,) * depth for depth in range(1, 5)}
