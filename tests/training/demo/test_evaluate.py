"""Judging and cards, end to end on untrained tiny models, and the shipped prompts."""

from __future__ import annotations

import json
from pathlib import Path

from training.demo.architecture import Shape, new_model
from training.demo.card import Trained, draft_card, target_card
from training.demo.corpus import Corpus, sample_texts
from training.demo.evaluate import evaluate
from training.demo.prompts import judged_prompts, write_prompts
from training.demo.public_data import SOURCES
from training.demo.registry import HELD_OUT
from training.demo.split import is_held_out_prompt
from training.demo.tokenizer import train_tokenizer
from training.demo.training_loop import LoopSettings, Progress

TINY = Shape(layers=1, hidden=16, intermediate=32, heads=2, key_value_heads=1)


def test_untrained_models_score_nothing_and_the_cards_say_so() -> None:
    tokenizer = train_tokenizer(sample_texts(Corpus(0), 300), 512)
    target, draft = new_model(TINY, tokenizer, seed=1), new_model(TINY, tokenizer, seed=2)
    scores = evaluate(target, tokenizer, draft, count=4)
    assert scores.instances.prompts == scores.families.prompts == 4
    assert scores.instances.pass_at_1 == scores.families.pass_at_1 == 0.0
    assert all(score.agreement < 0.5 for score in scores.draft.values())
    trained = Trained(1234567, LoopSettings(seconds=60), Progress(10, 60.0, 40960, 30000, 2.5, 6.0))
    public = [source.file for source in SOURCES]
    card = target_card(trained, scores, 7, public)
    assert "1,234,567 parameters" in card
    assert "40,960 tokens" in card
    assert "CC BY 4.0" in card
    assert all(f"`{name}`" in card for name in HELD_OUT)
    assert "generators in" in target_card(trained, scores, 7, [])
    assert "persona" not in target_card(trained, scores, 7, [])
    assert "greedy agreement" in draft_card(trained, scores, 7, public)


def test_shipped_prompts_are_held_out_and_apart_from_the_judged_ones(tmp_path: Path) -> None:
    write_prompts(tmp_path / "prompts.jsonl")
    records = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    splits = [record["split"] for record in records]
    assert splits.count("held-out instance") == 60
    assert splits.count("held-out family") == 20
    assert len({record["id"] for record in records}) == 80
    for record in records:
        assert (record["family"] in HELD_OUT) == (record["split"] == "held-out family")
        assert record["family"] in HELD_OUT or is_held_out_prompt(record["prompt"])
        assert all(test.startswith("assert candidate(") for test in record["tests"])


def test_judged_prompts_are_distinct() -> None:
    judged = judged_prompts(100)
    prompts = [instance.prompt for instance in (*judged.instances, *judged.families)]
    assert len(prompts) == len(set(prompts)) == 200
