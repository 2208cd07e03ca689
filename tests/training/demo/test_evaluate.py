"""Judging and the card, end to end on an untrained tiny model, and the shipped prompts."""

from __future__ import annotations

import json
import math
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest

from training.demo import answering
from training.demo.architecture import Shape, new_model
from training.demo.card import Trained, recipe_of, target_card
from training.demo.corpus import Corpus, sample_texts
from training.demo.evaluate import Scores, evaluate, is_right, loops
from training.demo.prompts import (
    FURTHER_HELD_OUT_FAMILIES,
    HELD_OUT_FAMILIES,
    UNSEEN_QUESTIONS,
    HeldOut,
    constant_passes,
    judged_prompts,
    write_prompts,
)
from training.demo.public_data import SOURCES
from training.demo.registry import FIRST_HELD_OUT, FURTHER_HELD_OUT, HELD_OUT
from training.demo.smalltalk import TOPICS, draw_turns
from training.demo.split import is_held_out_prompt
from training.demo.talks.categories import CATEGORIES, judged_sets
from training.demo.tokenizer import train_tokenizer
from training.demo.training_loop import TargetLoopSettings, TargetProgress

TINY = Shape(layers=1, hidden=16, intermediate=32, heads=2, key_value_heads=1, head=8)
SETS = {"code", HELD_OUT_FAMILIES, FURTHER_HELD_OUT_FAMILIES, *judged_sets()}


@pytest.fixture(scope="module")
def scores() -> Scores:
    tokenizer = train_tokenizer(sample_texts(Corpus(0), 300), 512)
    with pytest.MonkeyPatch.context() as patch:
        # An untrained model ends no answer: each would be as long as it may be.
        patch.setattr(answering, "LONGEST_ANSWER_TOKENS", 48)
        return evaluate(new_model(TINY, tokenizer, seed=1), tokenizer, count=2)


@pytest.fixture(scope="module")
def judged() -> dict[str, list[HeldOut]]:
    return judged_prompts(60)


def test_an_untrained_model_scores_nothing(scores: Scores) -> None:
    assert set(scores.sets) == SETS
    assert scores.pass_at_1 == (0.0, 0.0)
    for name, score in scores.sets.items():
        assert score.prompts == 2
        assert score.right == (None if name in ("stories", "chat") else 0.0)
        assert score.verbatim == 0.0
        assert score.loss > 5


def test_the_card_says_what_was_measured_and_where_the_weights_come_from(scores: Scores) -> None:
    progress = TargetProgress(10, 60.0, 40960, 30000, 2.5, 6.0)
    public = [source.file for source in SOURCES]
    card = target_card(
        Trained(1234567, TargetLoopSettings(tokens=60), progress, "Seed 3, long ago."), scores, 7, public
    )
    assert "1,234,567 parameters" in card
    assert "40,960 tokens" in card
    assert "CC BY 4.0" in card
    assert all(f"`{name}`" in card for name in HELD_OUT)
    assert all(f"\n| {name} | 2 | " in card for name in SETS)
    assert "Seed 3, long ago." in recipe_of(card)
    assert "## Measured" not in recipe_of(card)
    fresh = target_card(Trained(1234567, TargetLoopSettings(tokens=60), progress), scores, 7, [])
    assert "generators in" in fresh
    assert "persona" not in fresh
    assert "went on from" not in fresh


def test_the_card_says_how_small_talk_differs_and_what_ended_the_run(scores: Scores) -> None:
    turns = list(islice((turn for seed in count() for turn in draw_turns(Random(seed))), 3000))
    assert len({ask for ask, _ in turns}) < len(set(turns)), "some prompts have several answers"
    assert any(is_held_out_prompt(ask) for ask, _ in turns)
    progress = TargetProgress(10, 60.0, 40960, 30000, 2.5, 6.0)
    by_tokens, by_time = (
        target_card(Trained(1, TargetLoopSettings(60, seconds=seconds), progress), scores, 7, [])
        for seconds in (math.inf, 60.0)
    )
    _, small_talk, others = by_tokens.partition(
        "Small talk was written by hand, and which of its answers is given is drawn."
    )
    assert small_talk
    assert all(said in others for said in ("not by chance", "one wording in 16"))
    assert "the last 40% of the tokens, float32" in by_tokens
    assert "the last 40% of the tokens or of the time, whichever ended first, float32" in by_time


@pytest.mark.parametrize(
    ("item", "answer", "right"),
    [
        (HeldOut("math", "", "", "", result=("12",)), "3 * 4 = 12. So she has 12 pens.", True),
        (HeldOut("math", "", "", "", result=("12",)), "3 * 4 = 12. So she has 13 pens.", False),
        (HeldOut("math", "", "", "", result=("2",)), "So she has 12 pens.", False),
        (HeldOut("reading", "", "", "", result=("7 dollars",)), "It costs 7 dollars.", True),
        (HeldOut("reading", "", "", "", result=("7 dollars",)), "It costs 17 dollars.", False),
        (HeldOut("reading", "", "", "", result=("Rome",)), "She lives in Rome. So the answer is Oslo.", False),
        (HeldOut("reading", "", "", "", result=("Rome",)), "She does not live in Rome.", False),
        (HeldOut("reading", "", "", "", result=("Rome",), wrong=("Oslo",)), "She lives in Rome and Oslo.", False),
        (HeldOut("reading", "", "", "", result=("7",)), "It is 7 or 8.", False),
        (HeldOut("reading", "", "", "", result=("no",), wrong=("yes",)), "It is red. So the answer is no.", True),
        (HeldOut("reading", "", "", "", result=("no",), wrong=("yes",)), "So the answer is yes.", False),
        (HeldOut("reading", "", "", "", result=("no",), wrong=("yes",)), "No.", True),
        (HeldOut("reading", "", "", "", result=("the cafe",), wrong=("the bar",)), "The cafe opens first.", True),
        (HeldOut("reading", "", "", "", result=("the cafe",), wrong=("the bar",)), "The bar or the cafe.", False),
        (HeldOut("reading", "", "", "", result=("does not say",)), "The text does not say where.", True),
        (HeldOut("reading", "", "", "", result=("does not say",), wrong=("Oslo",)), "It does not say Oslo.", False),
        (HeldOut("rewriting", "", "", "", result=("- a\n- b",)), "The list:\n\n- a\n- b", True),
        (HeldOut("rewriting", "", "", "", result=("- a\n- b",)), "The list:\n\n- a\n- b\n- c", False),
        (HeldOut("rewriting", "", "", "", result=("- b",)), "- a\n- b", False),
        (HeldOut("rewriting", "", "", "", result=("She ran.",)), "But She ran.", False),
        (HeldOut("chat", "", "", ""), "Hello!", None),
        (HeldOut("code", "", "", "", tests=("assert candidate(1) == 2",)), "def f(x):\n    return x + 1", True),
        (HeldOut("code", "", "", "", tests=("assert candidate(1) == 2",)), "def f(x):\n    return x", False),
    ],
)
def test_right_and_wrong_answers_are_told_apart(item: HeldOut, answer: str, right: bool | None) -> None:
    assert is_right(item, answer) is right


def test_shipped_prompts_are_held_out_and_apart_from_the_judged_ones(tmp_path: Path) -> None:
    write_prompts(tmp_path / "prompts.jsonl")
    records = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert len({record["id"] for record in records}) == len(records)
    assert len({record["prompt"] for record in records}) == len(records)
    code = [record for record in records if record["category"] == "code"]
    splits = [record["split"] for record in code]
    assert (splits.count("held-out instance"), splits.count("held-out family")) == (200, 40)
    for name in CATEGORIES:
        assert sum(record["category"] == name for record in records) == 40
    for record in records:
        assert (record["family"] in HELD_OUT) == (record["split"] == "held-out family")
        assert record["family"] in HELD_OUT or is_held_out_prompt(record["prompt"])
        assert bool(record["tests"]) == (record["category"] == "code")
        assert bool(record["result"]) == (record["category"] in ("math", "reading", "rewriting"))
        assert not record["wrong"] or record["category"] == "reading"
        assert all(test.startswith("assert candidate(") for test in record["tests"])
    assert any(record["wrong"] for record in records)
    judged = {item.prompt for items in judged_prompts(40).values() for item in items}
    shared = judged & {record["prompt"] for record in records}
    assert len(shared) <= 5, "two draws from one large space"


def test_judged_prompts_are_distinct(judged: dict[str, list[HeldOut]]) -> None:
    for items in judged.values():
        assert len(items) == len({item.prompt for item in items}) == 60


def test_the_two_sets_of_held_out_families_are_judged_apart(judged: dict[str, list[HeldOut]]) -> None:
    assert not FIRST_HELD_OUT & FURTHER_HELD_OUT
    assert {item.family for item in judged[HELD_OUT_FAMILIES]} == FIRST_HELD_OUT
    assert {item.family for item in judged[FURTHER_HELD_OUT_FAMILIES]} == FURTHER_HELD_OUT


def test_no_constant_passes_the_tests_of_a_judged_prompt(judged: dict[str, list[HeldOut]]) -> None:
    assert constant_passes(("assert candidate([1]) == []", "assert candidate([2]) == []"))
    assert constant_passes(("assert candidate([1]) == 0", "assert candidate([2]) == 0.0"))
    assert not constant_passes(("assert candidate([1]) == []", "assert candidate([2]) == [2]"))
    coded = [item for items in judged.values() for item in items if item.tests]
    assert len(coded) == 180
    assert not any(constant_passes(item.tests) for item in coded)


def test_unseen_questions_are_not_those_of_small_talk() -> None:
    asked = {ask for topic in TOPICS for ask in topic.asks}
    assert not asked & {question.lower().rstrip("?.") for question in UNSEEN_QUESTIONS}


@pytest.mark.parametrize(
    ("ids", "looping"),
    [
        (list(range(300)), False),
        ([5] * 24, False),
        ([5] * 25, True),
        ([1, 2, 3] * 9, True),
        ([1, 2, 3] * 3 + list(range(10, 60)), False),
        (list(range(30)) * 3, False),
        (list(range(30)) * 4, True),
        ([], False),
    ],
)
def test_loops(ids: list[int], looping: bool) -> None:
    assert loops(ids) is looping
