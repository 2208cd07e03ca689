"""What all recipes read a batch, a moment and an evaluation by, and what recipes of every kind keep to."""

import importlib
from pathlib import Path

import pytest
import torch

from common.draft_kinds import TRAINED_KINDS
from common.rounds import RoundsAnswer
from tests.training.draft_models.rehearsal import PROMPTS, lose, measure, random_batch, random_target
from training.draft_models.features import FrozenTarget
from training.draft_models.recipe import Batch, Evaluation, Moment, Recipe

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 9, 3, 0, 0]])
LEARN = torch.tensor([[False, True, True, False, False], [True, True, False, False, False]])
BATCH = Batch(IDS, LEARN, torch.tensor([5, 3]))

of_every_kind = pytest.mark.parametrize("kind", [kind.name for kind in TRAINED_KINDS])


def test_each_learned_position_has_the_token_behind_it_and_belongs_to_an_answer_one_further_on() -> None:
    assert BATCH.targets.tolist() == [6, 7, 9, 3]
    assert IDS[BATCH.answers].tolist() == [6, 7, 9, 3]
    assert not BATCH.answers[:, 0].any()


def test_padding_is_told_from_tokens() -> None:
    assert BATCH.filled.tolist() == [[True] * 5, [True, True, True, False, False]]


def test_the_share_of_a_run_that_is_done_grows_from_none_to_less_than_all() -> None:
    assert [Moment(step, 4).share for step in range(4)] == [0.0, 0.25, 0.5, 0.75]


def test_an_evaluation_shows_the_accept_length_of_its_first_depth() -> None:
    deep, shallow = (RoundsAnswer(tuple(range(tokens)), 2, 2, (), 0) for tokens in (4, 3))
    found = Evaluation({1: [deep], 0: [shallow, shallow]})
    assert found.by_depth == {1: 3.0, 0: 2.0}
    assert found.accept_length == 3.0


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    """A target of half precision."""
    return random_target(tmp_path_factory.mktemp("half"), dtype="bfloat16")


def build(kind: str, target: FrozenTarget) -> Recipe:
    recipe: Recipe = importlib.import_module(f"training.draft_models.recipes.{kind}").build(target)
    return recipe


@of_every_kind
def test_a_recipe_trains_at_a_rate_of_its_own(kind: str, half: FrozenTarget) -> None:
    assert build(kind, half).tuning.rate > 0


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@of_every_kind
def test_a_draft_for_a_target_of_half_precision_learns_and_drafts(kind: str, half: FrozenTarget) -> None:
    recipe = build(kind, half)
    with torch.autocast("cpu", torch.bfloat16):
        total = lose(recipe, half, random_batch(half)).total
    assert total.dtype == torch.float32
    assert total.isfinite()
    measured = measure(recipe, half, PROMPTS[:1], 4)
    assert measured.accept_length >= 1
    assert 0 in measured.by_depth, "a draft that reads the target's top is measured as such"


@of_every_kind
def test_saving_leaves_what_trains_as_it_was(kind: str, half: FrozenTarget, tmp_path: Path) -> None:
    recipe = build(kind, half)
    before = {name: tensor.clone() for name, tensor in recipe.module.state_dict().items()}
    recipe.save(tmp_path)
    torch.testing.assert_close(dict(recipe.module.state_dict()), before, rtol=0, atol=0)
