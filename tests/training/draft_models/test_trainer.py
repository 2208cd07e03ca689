"""From settings to a finished draft: what is refused, what is written, and that time only decides how many steps."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from common.draft_models.measured_acceptance import (
    LONG_LEVELS,
    LONG_NODES,
    MeasuredAcceptance,
    read_measured_acceptance,
)
from common.protocol.errors import MisuseError, OutriderError
from tests.training.draft_models.fake_recipe import FakeRecipe, Ran, equal, make_inputs, weights
from training.draft_models import trainer
from training.draft_models.batches import SampleBatches, to_batch
from training.draft_models.checkpoint import WorkFolder
from training.draft_models.features import FrozenTarget
from training.draft_models.loop import Trainer
from training.draft_models.measurements import within
from training.draft_models.recipe import Batch, Features, LossParts, Moment, RoundsSize
from training.draft_models.trainer import TrainSettings, train_draft
from training.progress import TrainingBar


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def settings(inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainSettings]:
    monkeypatch.setattr(trainer, "FEWEST_BETWEEN", 1)
    target, data = inputs
    out = tmp_path / "draft"
    command = ("outrider-train", str(out))
    before = torch.get_num_threads()
    yield TrainSettings(str(target), (data,), out, steps=6, batch_tokens=256, device="cpu", threads=1, command=command)
    torch.set_num_threads(before)


def test_a_run_writes_draft_card_and_log(settings: TrainSettings) -> None:
    ran = Ran(settings)
    assert ran.measured is not None
    assert ran.measured.accept_length == 2.0
    assert sorted(path.name for path in ran.out.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert read_measured_acceptance(ran.out) == {0: MeasuredAcceptance(2.0, 1.5, (3.0,))}
    card = (ran.out / "README.md").read_text()
    target = json.loads((WorkFolder(ran.out).settings).read_text())["target"]
    for said in (
        f'target_fingerprint: "{target}"',
        "accept_length: 2.0",
        "| n=1 | 2.500 |",
        "| steps | 6 |",
        "| seed | 7 |",
        "| width | narrow |",
        "| data.jsonl | ",
        "78 samples with ",
        "2 held out",
        "outrider-train draft",
        "| trained parameters | 14,700 |",
    ):
        assert said in card
    assert str(settings.out.parent) not in card
    assert "accept length 2.00" in ran.printed
    log = [json.loads(line) for line in WorkFolder(ran.out).log.read_text().splitlines()]
    assert [entry["share"] for entry in log] == pytest.approx([step / 6 for step in range(6)])
    assert [entry["step"] for entry in log if "accept_length" in entry] == [1, 2, 3, 4, 5]
    assert log[-1]["loss"] < log[0]["loss"] * 2


def test_training_learns(settings: TrainSettings) -> None:
    ran = Ran(replace(settings, steps=60))
    log = [json.loads(line) for line in WorkFolder(ran.out).log.read_text().splitlines()]
    before, after = (entry["loss"] / (1 + entry["share"]) for entry in (log[0], log[-1]))
    assert after < 0.7 * before


def test_the_same_seed_gives_the_same_weights_and_another_one_does_not(settings: TrainSettings, tmp_path: Path) -> None:
    one = weights(Ran(settings).out)
    assert equal(one, weights(Ran(replace(settings, out=tmp_path / "same")).out))
    assert not equal(one, weights(Ran(replace(settings, out=tmp_path / "other", seed=8)).out))


def test_minutes_only_decide_the_number_of_steps(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "within", lambda budget, *timed: (6, 10))
    timed = Ran(replace(settings, out=tmp_path / "timed", steps=None, minutes=1.0))
    assert equal(weights(timed.out), weights(Ran(settings).out))


def test_time_is_kept_for_measuring() -> None:
    steps, measurements = within(600.0, step_seconds=0.5, measure_seconds=2.0)
    assert measurements == 10
    assert steps * 0.5 + (measurements - 1 + 3 * 32 / 3) * 2.0 == pytest.approx(600, abs=1)
    assert within(600.0, step_seconds=0.5, measure_seconds=100.0) == (1, 1)
    assert within(60.0, step_seconds=0.5, measure_seconds=0.0) == (120, 10)


def test_without_a_length_the_run_has_epochs(settings: TrainSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "FEWEST_STEPS", 2)
    monkeypatch.setattr(trainer, "EPOCHS", 1)
    ran = Ran(replace(settings, steps=None))
    content = json.loads(WorkFolder(ran.out).settings.read_text())
    assert content["planned_steps"] > 2
    assert "| steps | " + str(content["planned_steps"]) in (ran.out / "README.md").read_text()


def test_measuring_takes_prompts_that_were_not_trained_on(settings: TrainSettings) -> None:
    ran = Ran(settings)
    assert ran.recipe is not None
    last = [RoundsSize(128, LONG_LEVELS, LONG_NODES), RoundsSize(128, levels=1), RoundsSize(128)]
    assert [size for _, size in ran.recipe.asked] == [RoundsSize(48)] * 5 + last
    assert all(len(prompts) == 2 for prompts, _ in ran.recipe.asked)


def test_a_finished_draft_is_on_the_disk_before_its_checkpoint_goes(
    settings: TrainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    unlink, sync = Path.unlink, os.fsync

    def unlink_once_all_is_kept(path: Path, missing_ok: bool = False) -> None:
        if path == WorkFolder(settings.out).checkpoint and path.exists():
            kept = [each for each in settings.out.iterdir() if each.is_file()]
            assert len(kept) > 2
            assert {each.stat().st_ino for each in kept} <= synced
        unlink(path, missing_ok)

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(Path, "unlink", unlink_once_all_is_kept)
    monkeypatch.setattr(os, "fsync", noted)
    assert not WorkFolder(Ran(settings).out).checkpoint.exists()


def test_held_out_prompts_may_come_from_a_file(settings: TrainSettings, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n{"prompt": "three"}')
    ran = Ran(replace(settings, held_out=tmp_path / "prompts.jsonl"))
    assert ran.recipe is not None
    assert [len(prompts) for prompts, _ in ran.recipe.asked] == [3] * 8
    assert "80 samples with " in ran.printed


def test_a_single_prompt_and_step_are_singular(settings: TrainSettings, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "one"}')
    ran = Ran(replace(settings, steps=1, held_out=tmp_path / "prompts.jsonl"))
    assert "parameters for 1 step\n" in ran.printed
    card = (ran.out / "README.md").read_text()
    assert "On 1 held-out prompt, at most " in card
    assert " accumulated, 1 process |" in card


def test_answers_may_be_the_targets_own(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.draft_models.regenerate.ANSWER_TOKENS", 8)
    (tmp_path / "asked.jsonl").write_text("\n".join(f'{{"prompt": "{n}"}}' for n in range(5)))
    ran = Ran(replace(settings, data=(tmp_path / "asked.jsonl",), regenerate=True))
    assert len(WorkFolder(ran.out).regenerated.read_text().splitlines()) == 4
    assert "4 samples with " in ran.printed
    assert "| answers | the target's own |" in (ran.out / "README.md").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0}, "--steps must be above 0, not 0"),
        ({"rate": -1.0}, "--lr must be above 0, not -1"),
        ({"rate": float("nan")}, "--lr must be above 0"),
        ({"batch_tokens": -5}, "--batch-tokens must be above 0"),
        ({"minutes": 5.0}, "--steps and --minutes contradict each other"),
        ({"dtype": "float16"}, "--dtype float16 cannot be trained in; use one of: float32, bfloat16"),
        ({"max_length": 4096}, "--max-length 4096 is more than the target's context of 2048 tokens"),
        ({"device": "abacus"}, "the device 'abacus' is unknown"),
        ({"target": "/nowhere"}, "/nowhere"),
        ({"data": (Path("nowhere.jsonl"),)}, "nowhere.jsonl cannot be read"),
        ({"held_out": Path("nowhere.jsonl")}, "nowhere.jsonl cannot be read"),
        (
            {"out": Path(__file__) / "draft", "data": (Path("nowhere.jsonl"),)},
            "draft.work cannot be written: Not a directory; choose another --out",
        ),
        ({"max_length": 4}, "leaves nothing to train on"),
    ],
)
def test_what_cannot_be_is_one_sentence(settings: TrainSettings, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=r"^[^\n]*$") as refused:
        Ran(replace(settings, **changes))
    assert said in str(refused.value)
    assert not WorkFolder(settings.out).path.exists()


def test_options_that_do_not_fit_the_target_are_told_before_the_data_is_prepared(settings: TrainSettings) -> None:
    def build(target: FrozenTarget) -> FakeRecipe:
        raise MisuseError("the target has no such layers")

    with TrainingBar(Console(file=io.StringIO())) as bar, pytest.raises(MisuseError, match="no such layers"):
        train_draft(replace(settings, max_length=4), build, bar)


def test_nothing_is_overwritten(settings: TrainSettings) -> None:
    settings.out.write_text("")
    with pytest.raises(MisuseError, match="is a file"):
        Ran(settings)
    settings.out.unlink()
    settings.out.mkdir()
    (settings.out / "config.json").write_text("{}")
    with pytest.raises(MisuseError, match="is not empty"):
        Ran(settings)
    with pytest.raises(MisuseError, match="no run to continue"):
        Ran(replace(settings, resume=True))


def stop_at(settings: TrainSettings, **changes: Any) -> None:
    """Leaves a run behind that has a checkpoint and no result."""

    def save(out: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ran(settings, save=save, **changes)


def test_an_unfinished_run_is_continued_only_when_asked_and_as_it_was(settings: TrainSettings) -> None:
    stop_at(settings)
    with pytest.raises(MisuseError, match=r"an earlier run is in .*draft\.work: .*--resume"):
        Ran(settings)
    again = replace(settings, resume=True)
    with pytest.raises(MisuseError, match=r"other settings \(seed: 7, now 9; lr: 0\.01, now 0\.5\)"):
        Ran(replace(again, seed=9, rate=0.5))
    with pytest.raises(MisuseError, match=r"other settings \(kind: fake, now medusa\)"):
        Ran(again, kind="medusa")
    assert equal(weights(Ran(again).out), weights(Ran(replace(settings, out=settings.out / "x")).out))


def test_a_finished_run_and_one_that_never_was_are_told_apart(settings: TrainSettings) -> None:
    with pytest.raises(MisuseError, match=r"no run in .* to continue"):
        Ran(replace(settings, resume=True))
    Ran(settings)
    for resume in (False, True):
        with pytest.raises(MisuseError, match="a finished draft"):
            Ran(replace(settings, resume=resume))


def test_a_checkpoint_of_something_else_is_one_sentence(settings: TrainSettings) -> None:
    stop_at(settings)
    again = replace(settings, resume=True)
    for module in (torch.nn.Linear(3, 3), None):
        checkpoint = WorkFolder(settings.out).checkpoint
        if module is None:
            checkpoint.write_bytes(b"no checkpoint")
        else:
            torch.save({"module": module.state_dict(), "optimizer": {}, "progress": {}}, checkpoint)
        with pytest.raises(MisuseError, match=r"^[^\n]*checkpoint\.pt does not fit this run[^\n]*$"):
            Ran(again)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_out_of_memory_says_what_to_lower(settings: TrainSettings, error: Exception) -> None:
    def lose(*_: Any) -> None:
        raise error

    with pytest.raises(OutriderError, match=r"a batch of \d+ rows of \d+ tokens: lower --batch-tokens .*--max-length"):
        Ran(settings, loss=lose)


def test_a_loss_that_grows_beyond_the_memory_is_found_out_before_the_run(settings: TrainSettings) -> None:
    """As `eagle3`'s, of whose steps there are ever more; with less it is started again as the error says."""
    plain = FakeRecipe.loss

    class Growing(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            if moment.share > 0.8 and batch.learn.sum() > 64:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return plain(self, batch, features, moment)

    with pytest.raises(OutriderError, match="lower --batch-tokens"), TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(settings, Growing, bar)
    assert not WorkFolder(settings.out).log.exists()
    with TrainingBar(Console(file=io.StringIO())) as bar:
        assert train_draft(replace(settings, batch_tokens=64, accumulate=4), Growing, bar) is not None


def test_the_memory_of_each_of_the_heaviest_batches_is_tried(
    settings: TrainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, heaviest, computed = FakeRecipe.loss, list[Batch](), list[torch.Tensor]()

    def first_two(batches: SampleBatches) -> list[Batch]:
        heaviest[:] = [to_batch([sample]) for sample in batches.samples[:2]]
        return heaviest

    class Recording(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            computed.append(batch.ids)
            return plain(self, batch, features, moment)

    monkeypatch.setattr(SampleBatches, "heaviest", property(first_two))
    with TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(replace(settings, accumulate=1, steps=3), Recording, bar)
    assert len(heaviest) == 2
    assert all(map(torch.equal, computed[:2], [batch.ids for batch in heaviest]))


def test_trying_the_memory_changes_nothing(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = weights(Ran(settings).out)
    monkeypatch.setattr(Trainer, "try_memory", lambda *_: None)
    assert equal(tried, weights(Ran(replace(settings, out=tmp_path / "untried")).out))


def test_the_memory_is_tried_beside_what_the_optimiser_keeps_and_accumulated_gradients(
    settings: TrainSettings,
) -> None:
    """Weights, their gradients and two means of the optimiser: four tensors of that shape, and as many in the run."""
    plain, held = FakeRecipe.loss, []

    class Counting(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            weight = self.module[1].weight
            alike = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
            held.append(sum(each.shape == weight.shape for each in alike) + (weight.grad is not None))
            return plain(self, batch, features, moment)

    with TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(replace(settings, accumulate=2, steps=3), Counting, bar)
    tried, run = held[:2], held[2:]
    assert max(tried) >= max(run)


def test_other_failures_are_not_called_memory(settings: TrainSettings) -> None:
    def lose(*_: Any) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        Ran(settings, loss=lose)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_after_the_step_with_a_checkpoint(
    settings: TrainSettings, tmp_path: Path, number: signal.Signals
) -> None:
    plain, before = FakeRecipe.loss, signal.getsignal(number)

    class Interrupted(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            if moment.step == 3:
                signal.raise_signal(number)
            return plain(self, batch, features, moment)

    with pytest.raises(KeyboardInterrupt), TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(settings, Interrupted, bar)
    assert torch.load(WorkFolder(settings.out).checkpoint, weights_only=True)["progress"]["step"] == 4
    assert signal.getsignal(number) is before
    resumed = Ran(replace(settings, resume=True))
    assert equal(weights(resumed.out), weights(Ran(replace(settings, out=tmp_path / "through")).out))
    log = [json.loads(line) for line in WorkFolder(settings.out).log.read_text().splitlines()]
    assert [entry["step"] for entry in log] == [1, 2, 3, 4, 5, 6]


def test_a_step_may_learn_from_several_batches(settings: TrainSettings) -> None:
    seen: list[int] = []
    plain = FakeRecipe.loss

    class Counting(FakeRecipe):
        def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
            seen.append(moment.step)
            return plain(self, batch, features, moment)

    with TrainingBar(Console(file=io.StringIO())) as bar:
        train_draft(replace(settings, accumulate=3, steps=2), Counting, bar)
    tried, run = seen[:-6], seen[-6:]
    assert run == [0, 0, 0, 1, 1, 1]
    assert set(tried) == {1}
