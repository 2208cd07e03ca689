"""Trains a draft model from the command's settings to its finished directory: checks, data, target, recipe, loop,
measurement, card.

What may live here: the order of these steps and the defaults that depend on them. It may not know any recipe, nor how
any step works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from common.atomic import put_on_disk
from common.counted import counted
from common.draft_models.measured_acceptance import write_measured_acceptance
from common.models.fingerprint import fingerprint
from common.protocol.errors import MisuseError
from training.draft_models.batches import SampleBatches
from training.draft_models.card import CardFacts, write_card
from training.draft_models.checkpoint import RunProgress, WorkFolder, check_writable
from training.draft_models.data import Data, DataSettings, held_out_prompts, load_data
from training.draft_models.exact_text import figure
from training.draft_models.features import FrozenTarget, features, load_target
from training.draft_models.loop import LoopSettings, RunPlan, Trainer, memory_needed_for
from training.draft_models.measurements import (
    AT_THE_END,
    DURING,
    LONG,
    MEASUREMENTS,
    ONE_LEVEL,
    MeasurementSize,
    within,
    worth,
)
from training.draft_models.progress_log import ProgressLog
from training.draft_models.recipe import Evaluation, Recipe
from training.draft_models.records import Record, read_records
from training.draft_models.regenerate import Regeneration
from training.draft_models.sources import Sources, count_learned, read_sources
from training.draft_models.workers import Workers, gather_workers
from training.progress import TrainingBar
from training.writing import CONTINUED, written

DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""The values of `--dtype`, and the dtype of the losses with each; trained weights stay in float32."""

LONGEST_SAMPLE = 2048
CPU_BATCH_TOKENS = 4096
GPU_BATCH_TOKENS = 8192
EPOCHS = 4
FEWEST_STEPS = 500
"""The default length without `--steps` or `--minutes`: so many epochs, and at least so many steps."""

FEWEST_BETWEEN = 25
"""The fewest steps between two measurements."""


@dataclass(frozen=True)
class TrainSettings:
    """The options of the command that all draft kinds share; None stands for a default that depends on other
    options."""

    target: str
    data: tuple[Path, ...]
    out: Path
    steps: int | None = None
    minutes: float | None = None
    batch_tokens: int | None = None
    max_length: int | None = None
    rate: float | None = None
    seed: int = 7
    dtype: str | None = None
    device: str | None = None
    accumulate: int = 1
    regenerate: bool = False
    held_out: Path | None = None
    resume: bool = False
    threads: int | None = None
    save_every: int = 200
    command: tuple[str, ...] = ()


Build = Callable[[FrozenTarget], Recipe]


def train_draft(settings: TrainSettings, build: Build, bar: TrainingBar) -> Evaluation | None:
    """Trains the draft model that `build` makes, and writes it with its card into `settings.out`.

    Returns its answers to held-out prompts; None where nothing was held out. Raises `MisuseError` for errors in the
    settings, the data or the target, `OutriderError` where memory runs out, `KeyboardInterrupt` after Ctrl-C.
    """
    folder = WorkFolder(settings.out)
    check(settings, folder)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    with gather_workers(settings.device) as workers:
        return _train(settings, build, bar, folder, workers)


def _train(
    settings: TrainSettings, build: Build, bar: TrainingBar, folder: WorkFolder, workers: Workers
) -> Evaluation | None:
    show = bar.stage if workers.rank == 0 else lambda text: None
    show("reading the data")
    records = read_records(settings.data, answers_needed=not settings.regenerate)
    held_out = read_records([settings.held_out], answers_needed=False) if settings.held_out else None
    sources = read_sources(settings.data, settings.held_out)
    dtype = settings.dtype or ("bfloat16" if workers.device.type == "cuda" else "float32")
    target = load_target(settings.target, workers.device, dtype)
    settings = complete(settings, target, dtype)
    # Options that do not fit the target are told before the data is prepared, which may take hours.
    torch.manual_seed(settings.seed)
    recipe = build(target)
    recipe.module.to(workers.device)
    recipe.tuning = replace(recipe.tuning, rate=settings.rate or recipe.tuning.rate)

    data = load(settings, target, records, held_out, folder, workers, show)
    del records, held_out  # as large as the samples, and not read again
    ready = TrainingRun(settings, target, recipe, sources, data, folder, workers)
    for sentence in (*data.counts.sentences(int(settings.max_length or 0)), *ready.warnings()):
        show(sentence)
    plan = ready.plan(show)
    show(f"training {count_trained(recipe):,} parameters for {counted(plan.steps, 'step')}")
    progress = ready.trainer.run(plan, folder, ProgressLog(bar, folder, workers.count))
    show("measuring on held-out prompts and saving")
    return workers.from_first(lambda: ready.finish(progress))


def check(settings: TrainSettings, folder: WorkFolder) -> None:
    """Raises `MisuseError` for settings that contradict each other or the content of the output folder."""
    for name in ("steps", "minutes", "batch_tokens", "max_length", "rate", "threads", "accumulate", "save_every"):
        value = getattr(settings, name)
        option = "lr" if name == "rate" else name.replace("_", "-")
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise MisuseError(f"--{option} must be above 0, not {value:g}")
    if settings.steps and settings.minutes:
        raise MisuseError("--steps and --minutes contradict each other: pass one of them")
    if settings.dtype not in (None, *DTYPES):
        raise MisuseError(f"--dtype {settings.dtype} cannot be trained in; use one of: {', '.join(DTYPES)}")
    out = settings.out
    check_writable(folder.path)
    if out.exists() and not out.is_dir():
        raise MisuseError(f"--out {out} is a file: choose a folder")
    check_writable(out)
    begun, filled = folder.settings.exists(), out.exists() and any(out.iterdir())
    if begun and filled and not folder.checkpoint.exists():
        raise MisuseError(f"{out} holds a finished draft: choose another --out, or remove it and {folder.path}")
    if settings.resume and filled and not folder.checkpoint.exists():
        raise MisuseError(f"{out} holds files and no run to continue: choose another --out")
    if settings.resume and not begun:
        raise MisuseError(f"there is no run in {folder.path} to continue: name the right --out, or leave out --resume")
    if not settings.resume and (begun or filled):
        held = f"an earlier run is in {folder.path}" if begun else f"--out {out} is not empty"
        raise MisuseError(f"{held}: choose another --out" + (", or continue it with --resume" if begun else ""))


def complete(settings: TrainSettings, target: FrozenTarget, dtype: str) -> TrainSettings:
    """The settings with the defaults that depend on the target filled in."""
    if settings.max_length and settings.max_length > target.context:
        raise MisuseError(
            f"--max-length {settings.max_length} is more than the target's context of {target.context} tokens"
        )
    return replace(
        settings,
        dtype=dtype,
        max_length=settings.max_length or min(LONGEST_SAMPLE, target.context),
        batch_tokens=settings.batch_tokens or (GPU_BATCH_TOKENS if target.device.type == "cuda" else CPU_BATCH_TOKENS),
    )


def load(
    settings: TrainSettings,
    target: FrozenTarget,
    records: Sequence[Record],
    held_out: Sequence[Record] | None,
    folder: WorkFolder,
    workers: Workers,
    show: Callable[[str], None],
) -> Data:
    """Samples and prompts; with `--regenerate` the first process makes the answers for all."""
    length = int(settings.max_length or 0)
    wanted = DataSettings(length, settings.seed, held_out is None, int(target.config.vocab_size))
    regeneration = Regeneration(
        target,
        folder.regenerated,
        length,
        rows=max(1, 8 * int(settings.batch_tokens or 0) // length),
        report=lambda done, total: show(f"the target's own answers: {done:,} of {total:,} conversations"),
    )
    data = load_data(
        records,
        target.tokenizer,
        target.end_tokens,
        wanted,
        (lambda chat, items: workers.from_first(lambda: regeneration(chat, items))) if settings.regenerate else None,
    )
    if held_out is not None:
        prompts, too_long = held_out_prompts(held_out, target.tokenizer, target.end_tokens, wanted)
        data = replace(data, prompts=prompts, counts=replace(data.counts, unmeasured=too_long))
    return data


@dataclass
class TrainingRun:
    """One run, with everything that training needs."""

    settings: TrainSettings
    target: FrozenTarget
    recipe: Recipe
    sources: Sources
    data: Data
    folder: WorkFolder
    workers: Workers

    def __post_init__(self) -> None:
        settings = self.settings
        self.feed = SampleBatches(self.data.samples, int(settings.batch_tokens or 0), settings.seed)
        self.trainer = Trainer(
            self.recipe,
            self.feed.batch,
            lambda batch: features(self.target, batch, self.recipe.needs),
            lambda: self.measure(DURING),
            LoopSettings(settings.seed, settings.accumulate, DTYPES[str(settings.dtype)], settings.save_every),
            self.workers,
        )

    def plan(self, show: Callable[[str], None]) -> RunPlan:
        """The length of the run: as stored by the run that is resumed, as requested, or as the time allows. A run whose
        heaviest step does not fit into the memory stores nothing, so that it can be started again with less."""
        identity = self.identity()
        found = self.folder.stored(identity)
        if found is not None:
            if not self.folder.checkpoint.exists():
                show(f"{self.folder.path} has no checkpoint yet, so the run begins again")
            plan = RunPlan(found["planned_steps"], found["measure_every"])
            self.trainer.try_memory(self.feed.heaviest, plan.steps)
            return plan
        settings, per_step = self.settings, self.settings.accumulate * self.workers.count
        steps = settings.steps or max(FEWEST_STEPS, EPOCHS * self.feed.batches_per_epoch // per_step)
        measurements = MEASUREMENTS
        if settings.minutes:
            show("measuring the speed")
            timed = self.trainer.rehearse()
            steps, measurements = self.workers.from_first(lambda: within(float(settings.minutes or 0) * 60, *timed))
        plan = RunPlan(steps, max(FEWEST_BETWEEN, math.ceil(steps / measurements)))
        self.trainer.try_memory(self.feed.heaviest, plan.steps)
        if self.workers.rank == 0:
            self.folder.store({**identity, "planned_steps": plan.steps, "measure_every": plan.measure_every})
        return plan

    def identity(self) -> dict[str, Any]:
        """The settings that a resumed run may not change; other ones take another `VERSION` in `checkpoint`."""
        settings = self.settings
        return {
            "kind": self.recipe.kind,
            "options": dict(self.recipe.describe()),
            "target": self.target.fingerprint,
            "chat template, special tokens and end tokens": self.target.chat_form,
            "data": self.sources.data,
            "held out": self.sources.held_out,
            "seed": settings.seed,
            "steps": settings.steps,
            "minutes": settings.minutes,
            "batch_tokens": settings.batch_tokens,
            "max_length": settings.max_length,
            "lr": self.recipe.tuning.rate,
            "accumulate": settings.accumulate,
            "dtype": settings.dtype,
            "regenerate": settings.regenerate,
            "processes": self.workers.count,
        }

    def warnings(self) -> list[str]:
        """What the data do not give, though it was asked for."""
        said = []
        if self.settings.regenerate and not self.data.counts.conversations:
            said.append("--regenerate has no effect: plain text holds no questions for the target to answer")
        if reason := self.unmeasured():
            said.append(f"no accept length will be measured: {reason}")
        elif learned := self.learned_prompts():
            said.append(f"{counted(learned, 'held-out prompt')} will be learned from too")
        return said

    def answers(self) -> str:
        """Whose answers are learned, as a row of the card."""
        own = "the target's own" if self.settings.regenerate else "the data's"
        counts = self.data.counts
        if not counts.conversations:
            return "none: plain text"
        return f"{own}, and plain text as it is" if counts.windows else own

    def unmeasured(self) -> str:
        """Why the finished draft model cannot be measured; empty where it can be."""
        if self.prompts(AT_THE_END):
            return ""
        if self.data.prompts:
            size = AT_THE_END.rounds
            return (
                f"no held-out prompt leaves room for {size.new_tokens} tokens of answer and a tree of {size.nodes} in "
                f"the target's context of {self.target.context:,} tokens"
            )
        if self.data.counts.unmeasured:
            return f"no held-out prompt leaves room for an answer within {self.settings.max_length:,} tokens"
        if self.sources.held_out or self.data.counts.held_out:
            return "the chat template refuses all held-out prompts"
        return "there was too little data to hold any out"

    def learned_prompts(self) -> int:
        return count_learned(self.prompts(AT_THE_END), self.data.samples)

    def prompts(self, measured: MeasurementSize) -> list[list[int]]:
        """The first held-out prompts that leave room for an answer and a tree behind it."""
        room = self.target.context - measured.rounds.new_tokens - measured.rounds.nodes
        return [prompt for prompt in self.data.prompts if len(prompt) <= room][: measured.prompts]

    def measure(self, measured: MeasurementSize) -> Evaluation | None:
        """Answers with the draft model in its present state; None without a prompt."""
        prompts = self.prompts(measured)
        if not prompts:
            return None
        module = self.recipe.module
        module.eval()
        try:
            with (
                memory_needed_for(f"drafting for prompts of up to {max(map(len, prompts))} tokens"),
                torch.no_grad(),
                self.target.attention_kept(),
            ):
                return self.recipe.evaluate(prompts, measured.rounds)
        finally:
            module.train()

    def finish(self, progress: RunProgress) -> Evaluation | None:
        """Measures the finished draft model, writes it and its card, and removes the checkpoint."""
        # The main measurement comes last: a recipe may keep what it found in it.
        long, one_level, measured = map(self.measure, (LONG, ONE_LEVEL, AT_THE_END))
        self.recipe.module.eval()
        with written(f"the draft in {self.settings.out}", CONTINUED):
            self.write(progress, measured, one_level, long)
            put_on_disk(self.settings.out)
        self.folder.checkpoint.unlink(missing_ok=True)
        return measured

    def write(
        self,
        progress: RunProgress,
        measured: Evaluation | None,
        one_level: Evaluation | None,
        long: Evaluation | None,
    ) -> None:
        """Writes the draft model, its accept lengths and its card."""
        out, settings = self.settings.out, self.settings
        out.mkdir(parents=True, exist_ok=True)
        new_target = self.recipe.save(out)
        facts = CardFacts(
            kind=self.recipe.kind,
            target=self.target.name,
            fingerprint=self.target.fingerprint if new_target is None else fingerprint(new_target),
            new_target="" if new_target is None else new_target.name,
            parameters=count_trained(self.recipe),
            data=self.sources.data,
            counts=self.data.counts.sentences(int(settings.max_length or 0)),
            seed=settings.seed,
            progress=progress,
            settings={
                **self.recipe.describe(),
                "answers": self.answers(),
                "peak learning rate": figure(self.recipe.tuning.rate),
                "batch": f"{settings.batch_tokens:,} tokens, {settings.accumulate} accumulated, "
                f"{counted(self.workers.count, 'process')}",
                "longest sample": f"{settings.max_length:,} tokens",
                "computed in": f"{settings.dtype} on {device_name(self.workers.device)}",
            },
            measured=measured,
            unmeasured=self.unmeasured(),
            prompts=len(self.prompts(AT_THE_END)),
            learned_prompts=self.learned_prompts(),
            new_tokens=AT_THE_END.rounds.new_tokens,
            command=settings.command,
        )
        if measured and one_level:
            write_measured_acceptance(
                out, {depth: worth(depth, measured, one_level, long) for depth in measured.answers}
            )
        write_card(facts, out)


def count_trained(recipe: Recipe) -> int:
    return sum(parameter.numel() for parameter in recipe.module.parameters() if parameter.requires_grad)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
