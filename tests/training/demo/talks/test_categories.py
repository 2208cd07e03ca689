"""All categories: reproducible, held out by wording, of a useful length, and decided by the prompt."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice, pairwise

import pytest

from training.demo.check import RESULT_CHECKS
from training.demo.split import is_held_out_prompt
from training.demo.talks.categories import (
    CATEGORIES,
    EXERCISES,
    HELD_OUT_FAMILIES,
    held_out_talks,
    judged_sets,
    talks,
    training_talks,
)
from training.demo.talks.talk import Talk

NAMES = sorted(CATEGORIES)


@cache
def trained_on(name: str) -> list[Talk]:
    return list(islice(training_talks(name, "t"), 3000))


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_talks(name: str) -> None:
    assert list(islice(talks(name, "a"), 200)) == list(islice(talks(name, "a"), 200))
    assert list(islice(talks(name, "a"), 20)) != list(islice(talks(name, "b"), 20))


@pytest.mark.parametrize("name", NAMES)
def test_training_never_sees_a_held_out_prompt(name: str) -> None:
    held = held_out_talks(name, 60, "h")
    trained = {ask for talk in trained_on(name) for ask, _ in talk.turns}
    assert not {talk.prompt for talk in held} & trained
    assert not any(map(is_held_out_prompt, trained))
    assert all(is_held_out_prompt(talk.prompt) for talk in held)


@pytest.mark.parametrize("name", NAMES)
def test_held_out_talks_are_as_many_as_asked_for_distinct_and_single(name: str) -> None:
    held = held_out_talks(name, 50, "h")
    assert len(held) == len({talk.prompt for talk in held}) == 50
    assert held == held_out_talks(name, 50, "h")
    assert all(len(talk.turns) == 1 for talk in held)


def test_judged_sets_are_the_categories_their_exercises_and_their_held_out_families() -> None:
    assert list(judged_sets()) == [*CATEGORIES, *EXERCISES, *HELD_OUT_FAMILIES]
    assert set(judged_sets().values()) == set(CATEGORIES)
    assert {"reading, held-out families", "rewriting, held-out families"} <= set(HELD_OUT_FAMILIES)


@pytest.mark.parametrize("name", sorted(HELD_OUT_FAMILIES))
def test_held_out_families_are_never_trained_on(name: str) -> None:
    held = {talk.family for talk in held_out_talks(name, 200, "h")}
    trained = {talk.family for talk in trained_on(judged_sets()[name])}
    assert 3 <= len(held) <= 5
    assert not held & trained


@pytest.mark.parametrize("name", sorted(EXERCISES))
def test_exercises_are_trained_on_and_judged_apart_from_the_tasks(name: str) -> None:
    category = judged_sets()[name]
    exercises = {talk.family for talk in held_out_talks(name, 300, "h")}
    tasks = {talk.family for talk in held_out_talks(category, 300, "h")}
    trained = {talk.family for talk in trained_on(category)}
    assert not exercises & tasks
    assert exercises | tasks <= trained


@pytest.mark.parametrize("name", ["stories", "chat"])
def test_what_the_prompt_leaves_open_is_not_left_to_chance(name: str) -> None:
    """Equal prompts come up often enough here to catch an answer that chance decides."""
    answers: dict[str, set[str]] = {}
    repeated = 0
    for talk in islice(talks(name, "again"), 40_000):
        ask, answer = talk.turns[0]
        repeated += ask in answers
        answers.setdefault(ask, set()).add(answer)
    assert repeated >= 10
    assert all(len(given) == 1 for given in answers.values())


@pytest.mark.parametrize("name", NAMES)
def test_prompts_rarely_repeat(name: str) -> None:
    prompts = [talk.prompt for talk in islice(talks(name, "space"), 1500)]
    assert len(set(prompts)) > 0.95 * len(prompts)


@pytest.mark.parametrize("name", sorted(RESULT_CHECKS))
def test_the_generators_own_answer_counts_as_right_and_another_ones_as_wrong(name: str) -> None:
    drawn = list(islice(talks(name, "right"), 400))
    check = RESULT_CHECKS[name]
    assert all(talk.result and check(talk.turns[0][1], talk.result, talk.wrong) for talk in drawn)
    fooled = sum(check(other.turns[0][1], one.result, one.wrong) for one, other in pairwise(drawn))
    assert fooled < 0.06 * len(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_answers_fill_their_templates(name: str) -> None:
    for talk in islice(talks(name, "filled"), 1500):
        for text in (part for turn in talk.turns for part in turn):
            assert "  " not in text.replace("\n  {", "")
            assert not re.search(r"\{[a-z}]|\b[Aa] [aeiou](?!ne-)|\b[Aa]n (?!hour)[^aeiou]|[.,][.,]| \.", text)
