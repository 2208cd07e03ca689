"""What all recipes read a batch, a moment and an evaluation by."""

import torch

from common.rounds import RoundsAnswer
from training.draft_models.recipe import Batch, Evaluation, Moment

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 9, 3, 0, 0]])
LEARN = torch.tensor([[False, True, True, False, False], [True, True, False, False, False]])
BATCH = Batch(IDS, LEARN, torch.tensor([5, 3]))


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
