"""Batches, the time budget, exact resuming and saved folders, on a tiny model."""

from __future__ import annotations

import dataclasses
import errno
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from common.protocol.errors import MisuseError, OutriderError
from tests.pretended_gpu import GPU, pretended_gpu
from training.demo import training_loop
from training.demo.answering import greedy_answers
from training.demo.architecture import Shape, new_model
from training.demo.batching import ConversationBatch, CorpusBatches, group, to_batch
from training.demo.corpus import Corpus, sample_texts
from training.demo.evaluate import reference_loss
from training.demo.prompts import HeldOut
from training.demo.recipe import answer_loss
from training.demo.shipping import load_model, save_model
from training.demo.tokenizer import Encoded, train_tokenizer
from training.demo.training_loop import (
    TargetLoopSettings,
    TargetProgress,
    active_time,
    new_optimisers,
    rate_factor,
    run,
)

TINY = Shape(layers=2, hidden=16, intermediate=32, heads=2, key_value_heads=1, head=8)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(sample_texts(Corpus(0), 300), 256)


@pytest.fixture(scope="module")
def feed(tokenizer: PreTrainedTokenizerFast) -> CorpusBatches:
    return CorpusBatches(Corpus(3), tokenizer, tokens=512, block=4, row_lengths=(64, 128, 256, 512))


@pytest.fixture(autouse=True)
def float32_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other programs do meanwhile."""
    monkeypatch.setattr(training_loop, "bfloat16_is_faster", lambda: False)


class StopEarlyError(Exception):
    """Breaks a run off between two steps."""


def train(feed: CorpusBatches, steps: int, folder: Path, tokens: int) -> LlamaForCausalLM:
    """Train from the folder's checkpoint until `steps` steps of a plan for `tokens` tokens are made."""
    model = new_model(TINY, feed.tokenizer, seed=1)
    settings = TargetLoopSettings(tokens, warmup_steps=2, save_every_steps=1)

    def stop_early(progress: TargetProgress) -> None:
        if progress.step > steps:
            raise StopEarlyError

    with suppress(StopEarlyError):
        run(model, feed.batch, answer_loss, settings, folder / "run.pt", stop_early)
    return model


def test_a_resumed_run_equals_an_unbroken_one(feed: CorpusBatches, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    unbroken = train(feed, steps=100, folder=tmp_path / "whole", tokens=3000)
    train(feed, steps=3, folder=tmp_path / "broken", tokens=3000)
    resumed = train(feed, steps=100, folder=tmp_path / "broken", tokens=3000)
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_resumed_run_computes_in_the_dtype_in_which_it_began(
    feed: CorpusBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    unbroken = train(feed, steps=4, folder=tmp_path / "whole", tokens=200_000)
    train(feed, steps=2, folder=tmp_path / "broken", tokens=200_000)
    monkeypatch.setattr(training_loop, "bfloat16_is_faster", lambda: True)
    resumed = train(feed, steps=4, folder=tmp_path / "broken", tokens=200_000)
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_broken_checkpoint_and_a_full_disk_are_one_sentence(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, checkpoint = new_model(TINY, tokenizer, seed=1), tmp_path / "target.pt"
    settings, none = TargetLoopSettings(tokens=0), lambda number: pytest.fail("there is no step")
    run(model, none, answer_loss, settings, checkpoint)
    kept = checkpoint.read_bytes()

    def fail(state: object, file: BinaryIO) -> None:
        file.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", fail)
        with pytest.raises(OutriderError, match=r"target\.pt cannot be written: No space"):
            run(model, none, answer_loss, settings, checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["target.pt"]
    assert checkpoint.read_bytes() == kept
    checkpoint.write_bytes(b"no checkpoint")
    with pytest.raises(MisuseError, match=r"target\.pt does not fit this run: remove"):
        run(model, none, answer_loss, settings, checkpoint)


def test_the_weights_of_a_checkpoint_do_not_stay_in_memory_beside_those_of_the_run(
    feed: CorpusBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(feed, steps=1, folder=tmp_path, tokens=200_000)
    loaded = list[weakref.ref[torch.Tensor]]()
    load, batch, alive = torch.load, feed.batch, list[int]()

    def noted(*arguments: Any, **options: Any) -> Any:
        state = load(*arguments, **options)
        loaded.extend(map(weakref.ref, state["model"].values()))
        return state

    def counted(step: int) -> ConversationBatch:
        alive.append(sum(each() is not None for each in loaded))
        return batch(step)

    monkeypatch.setattr(torch, "load", noted)
    monkeypatch.setattr(feed, "batch", counted)
    train(feed, steps=2, folder=tmp_path, tokens=200_000)
    assert loaded
    assert not any(alive)


def test_a_run_on_its_plateau_may_be_made_longer(feed: CorpusBatches, tmp_path: Path) -> None:
    for name in ("long", "extended"):
        (tmp_path / name).mkdir()
    long = train(feed, steps=4, folder=tmp_path / "long", tokens=200_000)
    train(feed, steps=2, folder=tmp_path / "extended", tokens=100_000)
    extended = train(feed, steps=4, folder=tmp_path / "extended", tokens=200_000)
    for one, other in zip(long.parameters(), extended.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_ends_after_its_time_at_a_rate_of_zero() -> None:
    settings = TargetLoopSettings(tokens=1000, warmup_steps=1, seconds=60.0)
    rates = [rate_factor(settings, TargetProgress(9, seconds, tokens=100)) for seconds in (0.0, 48.0, 59.9, 61.0)]
    assert rates == pytest.approx([1.0, 0.5, 0.004, 0.0], abs=1e-3)
    assert [settings.left(TargetProgress(9, *done)) for done in ((61.0, 100), (0.0, 1000))] == [0.0, 0.0]
    for seconds in (0.0, -180.0):
        assert TargetLoopSettings(tokens=10**8, seconds=seconds).left(TargetProgress(9, 1e6, tokens=1)) == 0.0


def test_a_run_leaves_nothing_on_the_cpu(feed: CorpusBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model(TINY, feed.tokenizer, seed=1)
    before = [parameter.clone() for parameter in model.parameters()]
    monkeypatch.setattr("training.demo.answering.LONGEST_ANSWER_TOKENS", 3)
    with pretended_gpu(monkeypatch):
        torch.nn.Module.to(model, GPU)
        run(model, feed.batch, answer_loss, TargetLoopSettings(600, warmup_steps=1), tmp_path / "run.pt")
        assert all(parameter.is_cuda for parameter in model.parameters())
        (answer,) = greedy_answers(model, feed.tokenizer, ["Hello"])
        item = HeldOut("chat", "none", "Hello", "Hello to you.")
        assert reference_loss(model, feed.tokenizer, [item]) > 0
    assert answer.prompt_ids
    assert not any(map(torch.equal, model.parameters(), before))


def test_every_parameter_has_one_optimiser_and_matrices_of_layers_have_muon(feed: CorpusBatches) -> None:
    model = new_model(TINY, feed.tokenizer, seed=1)
    muon, adamw = new_optimisers(model, TargetLoopSettings(tokens=1), torch.float32)
    trained = {id(p): kind for kind in (muon, adamw) for group in kind.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert trained.pop(id(parameter)) is (muon if ".layers." in name and parameter.ndim == 2 else adamw)
    assert not trained


def test_batches_depend_on_the_step_alone(feed: CorpusBatches) -> None:
    again = CorpusBatches(feed.corpus, feed.tokenizer, feed.tokens, feed.block, feed.row_lengths)
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


def test_padding_changes_no_loss(feed: CorpusBatches) -> None:
    model = new_model(TINY, feed.tokenizer, seed=2)
    item = Encoded([*range(5, 25)], [index > 8 for index in range(20)])
    tight, loose = to_batch([item], columns=20, rows=1), to_batch([item], columns=64, rows=3)
    torch.testing.assert_close(answer_loss(model, tight), answer_loss(model, loose))


def test_a_pause_does_not_count_as_used_time() -> None:
    assert active_time(500.0, typical=1.0) == 4.0
    assert active_time(1.5, typical=1.0) == 1.5
    assert active_time(9.0, typical=0.0) == 9.0


def test_the_rates_warm_up_stay_and_decay_to_zero() -> None:
    settings = TargetLoopSettings(tokens=1000, warmup_steps=10, decay_share=0.5)
    factors = [
        rate_factor(settings, TargetProgress(step=step, tokens=tokens))
        for step, tokens in ((0, 0), (9, 10), (50, 500), (75, 750), (100, 1000))
    ]
    assert factors == pytest.approx([0.1, 1.0, 1.0, 0.5, 0.0])


def test_a_saved_folder_loads_in_float32_and_answers(feed: CorpusBatches, tmp_path: Path) -> None:
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
        TargetLoopSettings(tokens=1).tokens = 2  # type: ignore[misc]
