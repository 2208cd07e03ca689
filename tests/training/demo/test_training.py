"""Batches, the time budget, exact resuming and saved folders, on a tiny model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from training.demo.answering import greedy_answers
from training.demo.architecture import Shape, new_model
from training.demo.batching import Feed, group, to_batch
from training.demo.corpus import Corpus, sample_texts
from training.demo.losses import answer_loss
from training.demo.shipping import load_model, save_model
from training.demo.tokenizer import Encoded, train_tokenizer
from training.demo.training_loop import LoopSettings, Progress, active_time, learning_rate, run

TINY = Shape(layers=2, hidden=16, intermediate=32, heads=2, key_value_heads=1)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(sample_texts(Corpus(0), 300), 256)


@pytest.fixture(scope="module")
def feed(tokenizer: PreTrainedTokenizerFast) -> Feed:
    return Feed(Corpus(3), tokenizer, tokens=512, block=4, row_lengths=(64, 128, 256, 512))


class StopEarlyError(Exception):
    """Breaks a run off between two steps."""


def ticking() -> Callable[[], float]:
    """A clock on which every step lasts one second."""
    ticks = iter(range(10_000))
    return lambda: float(next(ticks))


def train(feed: Feed, seconds: float, folder: Path, whole: float) -> LlamaForCausalLM:
    """Train from the folder's checkpoint until `seconds` of a plan for `whole` seconds are used."""
    model = new_model(TINY, feed.tokenizer, seed=1)
    settings = LoopSettings(seconds=whole, warmup_steps=2, save_every_steps=1)

    def stop_early(progress: Progress) -> None:
        if progress.seconds > seconds:
            raise StopEarlyError

    with suppress(StopEarlyError):
        run(model, feed.batch, answer_loss, settings, folder / "run.pt", stop_early, clock=ticking())
    return model


def test_a_resumed_run_equals_an_unbroken_one(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    unbroken = train(feed, seconds=8, folder=tmp_path / "whole", whole=8)
    train(feed, seconds=4, folder=tmp_path / "broken", whole=8)
    resumed = train(feed, seconds=8, folder=tmp_path / "broken", whole=8)
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_batches_depend_on_the_step_alone(feed: Feed) -> None:
    again = Feed(feed.corpus, feed.tokenizer, feed.tokens, feed.block, feed.row_lengths)
    forwards = [feed.batch(step) for step in range(8)]
    backwards = [again.batch(step) for step in reversed(range(8))]
    for one, other in zip(forwards, reversed(backwards), strict=True):
        assert torch.equal(one.ids, other.ids)
        assert one.ids.numel() <= feed.tokens
    assert not torch.equal(forwards[0].ids, forwards[4].ids)


def test_groups_hold_similar_lengths_and_lose_nothing() -> None:
    pool = [Encoded([7] * size, [True] * size) for size in (5, 60, 30, 33, 64, 2, 31)]
    groups = group(pool, tokens=64, row_lengths=(32, 64))
    assert [columns for columns, _ in groups] == [64, 64, 64, 32, 32]
    assert [[len(item.ids) for item in items] for _, items in groups] == [[64], [60], [33], [31, 30], [5, 2]]


def test_a_row_learns_the_answer_and_its_end_alone() -> None:
    item = Encoded([3, 10, 11, 4, 20, 21, 22], [False, False, False, False, True, True, True])
    batch = to_batch([item], columns=9, rows=2)
    assert batch.ids.tolist() == [[3, 10, 11, 4, 20, 21, 22, 0, 0], [0] * 9]
    assert batch.learn.nonzero().tolist() == [[0, 3], [0, 4], [0, 5]]
    assert batch.targets.tolist() == [20, 21, 22]


def test_padding_changes_no_loss(feed: Feed) -> None:
    model = new_model(TINY, feed.tokenizer, seed=2)
    item = Encoded([*range(5, 25)], [index > 8 for index in range(20)])
    tight, loose = to_batch([item], columns=20, rows=1), to_batch([item], columns=64, rows=3)
    torch.testing.assert_close(answer_loss(model, tight), answer_loss(model, loose))


def test_a_pause_does_not_count_as_used_time() -> None:
    assert active_time(500.0, typical=1.0) == 4.0
    assert active_time(1.5, typical=1.0) == 1.5
    assert active_time(9.0, typical=0.0) == 9.0


def test_the_rate_warms_up_stays_and_decays() -> None:
    settings = LoopSettings(seconds=100, peak_rate=1.0, warmup_steps=10, decay_share=0.5, final_rate_share=0.02)
    rates = [
        learning_rate(settings, Progress(step=step, seconds=seconds))
        for step, seconds in ((0, 0.0), (9, 1.0), (50, 50.0), (75, 75.0), (99, 99.9))
    ]
    assert rates == pytest.approx([0.1, 1.0, 1.0, 0.5, 0.02])


def test_a_saved_folder_loads_in_float32_and_answers(feed: Feed, tmp_path: Path) -> None:
    model = new_model(TINY, feed.tokenizer, seed=4)
    save_model(model, feed.tokenizer, tmp_path)
    loaded, tokenizer = load_model(tmp_path)
    automatic = LlamaForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == automatic.dtype == torch.float32
    for saved, read in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(saved.to(torch.bfloat16).float(), read)
    for answer in greedy_answers(loaded, tokenizer, ["Hi", "Write a function that counts words."]):
        wanted = [*answer.ids, tokenizer.eos_token_id] if answer.ended else answer.ids
        logits = loaded(input_ids=torch.tensor([answer.prompt_ids + wanted])).logits[0, len(answer.prompt_ids) - 1 : -1]
        assert logits.argmax(dim=-1).tolist() == wanted


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LoopSettings(seconds=1).seconds = 2  # type: ignore[misc]
