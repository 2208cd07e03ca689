"""The training loop of all draft kinds. A resumed run gives exactly the result of an uninterrupted one.

What may live here: steps, gradients, the learning rate, the order of saving and measuring. It may not know any recipe,
data formats, devices beyond `Workers`, or how progress is shown.

A step depends only on the weights, the optimiser's state, the seed, its number and the length of the run: batches come
by number, the learning rate by step, and torch's generators are seeded before every loss.
"""

from __future__ import annotations

import hashlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from common.protocol.errors import OutriderError
from training.draft_models.checkpoint import RunProgress, WorkFolder
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, Recipe, Tuning
from training.draft_models.workers import Workers

WARM_UP_SHARE = 0.05
LONGEST_WARM_UP = 100
FINAL_SHARE = 0.05
"""Warm-up over 50 steps and a decay to a twentieth of the peak rate are the published recipe's (arXiv 2410.03804)."""

REHEARSED_STEPS = 20
UNTIMED_STEPS = 3
"""The first steps of a process are slower than all others."""

REPORTS = 500
RAREST_REPORT = 20
"""The number of reports of a run, and the most steps between two; reading a loss makes a GPU wait."""


@dataclass(frozen=True)
class LoopSettings:
    """accumulate: batches of one step in every process. autocast: the dtype of the losses; None for that of the
    weights.
    save_every: steps between checkpoints."""

    seed: int
    accumulate: int = 1
    autocast: torch.dtype | None = None
    save_every: int = 200


@dataclass(frozen=True)
class RunPlan:
    """The length of a run in steps, and the number of steps between measurements."""

    steps: int
    measure_every: int


class ProgressListener(Protocol):
    """Receives the progress of a run. metrics: means since the last report. rate: the learning rate."""

    def report(self, progress: RunProgress, steps: int, rate: float, metrics: Mapping[str, float]) -> None: ...


class LossModule(nn.Module):
    """A recipe's loss as the forward pass of one module, which data-parallel training needs to synchronise
    gradients."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.trained = recipe.module
        self.recipe = recipe

    def forward(
        self, batch: Batch, features: Features, moment: Moment
    ) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        parts: LossParts = self.recipe.loss(batch, features, moment)
        return parts.total, parts.metrics


class Trainer:
    """Trains one recipe.

    batches: the batch of a number, on any device. compute: the target's features of a batch on the workers' device.
    measure: answers with the draft model in its present state.
    """

    def __init__(
        self,
        recipe: Recipe,
        batches: Callable[[int], Batch],
        compute: Callable[[Batch], Features],
        measure: Callable[[], Evaluation | None],
        settings: LoopSettings,
        workers: Workers,
    ) -> None:
        self.recipe, self.batches, self.compute, self.measure = recipe, batches, compute, measure
        self.settings, self.workers = settings, workers
        self.optimizer = new_optimizer(recipe.module, recipe.tuning)
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.step_module, self.stepper = workers.prepare(LossModule(recipe), self.optimizer)

    def rehearse(self) -> tuple[float, float]:
        """Times a step and a measurement, in seconds; afterwards the weights are as before."""
        before = {name: value.detach().clone() for name, value in self.recipe.module.state_dict().items()}
        self.recipe.module.train()
        started = time.monotonic()
        for step in range(REHEARSED_STEPS):
            if step == UNTIMED_STEPS:
                started = time.monotonic()
            # Reading the loss waits for the GPU, which computes asynchronously.
            float(self.take(Moment(step, REHEARSED_STEPS))["loss"])
        stepped = time.monotonic()
        self.workers.from_first(self.measure)
        measured = time.monotonic()
        self.recipe.module.load_state_dict(before)
        self.optimizer.state.clear()
        return (stepped - started) / (REHEARSED_STEPS - UNTIMED_STEPS), measured - stepped

    def try_memory(self, batches: Sequence[Batch], steps: int) -> None:
        """Computes the gradients of each batch at the end of a run of `steps`, where losses take the most memory,
        beside as much as the optimiser and accumulated gradients will keep; afterwards everything is as before.

        Raises `OutriderError` where the memory does not suffice, which a run would find out after hours.
        """
        before = {name: value.detach().clone() for name, value in self.recipe.module.named_buffers()}
        trained = [each for group in self.optimizer.param_groups for each in group["params"]]
        self.recipe.module.train()
        for batch in batches:
            with self.enough_memory(batch):
                moments = [torch.empty_like(each) for each in trained for _ in range(2)]
                for _ in range(min(2, self.settings.accumulate)):
                    total, _metrics = self.lose(batch.to(self.workers.device), Moment(steps - 1, steps), number=0)
                    self.workers.backward(total)
            self.stepper.zero_grad()
            del moments
        with torch.no_grad():
            for name, value in before.items():
                self.recipe.module.get_buffer(name).copy_(value)

    def run(self, plan: RunPlan, folder: WorkFolder, watch: ProgressListener) -> RunProgress:
        """Trains to the end of `plan`, from the folder's checkpoint where there is one.

        Ctrl-C ends it after the present step: it saves a checkpoint and raises `KeyboardInterrupt`.
        """
        progress = folder.restore(self.recipe.module, self.optimizer, self.workers.device)
        begun = time.monotonic() - progress.seconds
        every = min(RAREST_REPORT, max(1, plan.steps // REPORTS))
        taken: list[Mapping[str, torch.Tensor]] = []
        self.recipe.module.train()
        with interruptible() as interrupted:
            while progress.step < plan.steps:
                taken.append(self.take(Moment(progress.step, plan.steps), progress))
                progress.step += 1
                done = progress.step == plan.steps
                if progress.step % plan.measure_every == 0 and not done:
                    self.note_accept_length(progress)
                stopping = self.workers.any(interrupted())
                saving = progress.step % self.settings.save_every == 0 or done or stopping
                if progress.step % every == 0 or saving:
                    progress.seconds = time.monotonic() - begun
                    metrics, taken = means(taken), []
                    progress.loss = metrics["loss"]
                    if self.workers.rank == 0:
                        watch.report(progress, plan.steps, self.optimizer.param_groups[0]["lr"], metrics)
                if saving and self.workers.rank == 0:
                    folder.save(self.recipe.module, self.optimizer, progress)
                if stopping and not done:
                    raise KeyboardInterrupt
        return progress

    def take(self, moment: Moment, progress: RunProgress | None = None) -> dict[str, torch.Tensor]:
        """One step of the optimiser. Returns loss and metrics as scalars on the device, means over its batches.

        A batch weighs as its learned positions among those of the step in all processes, so that a loss that is a mean
        over them has the gradient of one batch of all. Where parts of a loss are means over other positions, such as
        those of Medusa's later heads, each part is weighed by the learned positions too, which comes close.
        """
        settings, workers = self.settings, self.workers
        first = moment.step * settings.accumulate
        numbers = [(first + part) * workers.count + workers.rank for part in range(settings.accumulate)]
        batches = [self.batches(number) for number in numbers]
        learned = [int(batch.learn.sum()) for batch in batches]
        tokens, all_learned = workers.sums([sum(int(batch.lengths.sum()) for batch in batches), sum(learned)])
        if progress is not None:
            progress.tokens += tokens
            progress.learned += all_learned
        share = rate_share(moment.step, moment.steps)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share
        found: dict[str, torch.Tensor] = {}
        for part, (number, batch, learned_tokens) in enumerate(zip(numbers, batches, learned, strict=True)):
            with self.enough_memory(batch), self.joining(part):
                total, metrics = self.lose(batch.to(workers.device), moment, number)
                # The processes' gradients are averaged.
                workers.backward(total * (learned_tokens * workers.count / all_learned))
            for name, value in {**metrics, "loss": total.detach()}.items():
                found[name] = found.get(name, torch.zeros_like(value)) + value * (learned_tokens / sum(learned))
        torch.nn.utils.clip_grad_norm_(self.recipe.module.parameters(), self.recipe.tuning.clip)
        self.stepper.step()
        self.stepper.zero_grad()
        return found

    def lose(self, batch: Batch, moment: Moment, number: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        features = self.compute(batch)
        seed_torch(self.settings.seed, number)
        dtype = self.settings.autocast
        with torch.autocast(self.workers.device.type, dtype, enabled=dtype is not None):
            result: tuple[torch.Tensor, Mapping[str, torch.Tensor]] = self.step_module(batch, features, moment)
        return result

    def joining(self, part: int) -> Any:
        """Gradients of several processes are synchronised once, with the last batch of a step."""
        last = part == self.settings.accumulate - 1
        return nothing() if last else self.workers.apart(self.step_module)

    def note_accept_length(self, progress: RunProgress) -> None:
        found = self.workers.from_first(self.measure)
        if found is not None:
            progress.accepted.append((progress.step, found.accept_length))

    @contextmanager
    def enough_memory(self, batch: Batch) -> Iterator[None]:
        """Raises `OutriderError` with advice where memory runs out."""
        rows, columns = batch.ids.shape
        with memory_needed_for(f"a batch of {rows} rows of {columns} tokens"):
            yield


@contextmanager
def memory_needed_for(what: str) -> Iterator[None]:
    """Turns an out-of-memory error, on any device, into `OutriderError`."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        # The CPU's allocator has no exception of its own.
        if type(error) is RuntimeError and "can't allocate memory" not in str(error):
            raise
        raise OutriderError(
            f"the memory does not suffice for {what}: lower --batch-tokens (and raise --accumulate to learn from as "
            "many), or --max-length, in a new run"
        ) from error


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed or the process told to end (SIGTERM); the second time
    raises `KeyboardInterrupt`."""
    interrupted = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    # Only the main thread may change what signals do.
    if threading.current_thread() is not threading.main_thread():
        yield interrupted.is_set
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def means(taken: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, float]:
    """The mean of every metric over the steps that have it."""
    names = {name: [step[name] for step in taken if name in step] for step in taken for name in step}
    return {name: float(torch.stack(values).float().mean()) for name, values in names.items()}


def seed_torch(seed: int, number: int) -> None:
    """Seeds torch's generators on every device for the batch of that number."""
    torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:8], "big"))


def new_optimizer(module: nn.Module, tuning: Tuning) -> torch.optim.AdamW:
    """AdamW over all trainable parameters of `module`, in groups of equal rate and decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            scale = next((value for prefix, value in tuning.rate_scales.items() if name.startswith(prefix)), 1.0)
            decay = tuning.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((scale, decay), []).append(parameter)
    described = [
        {"params": parameters, "lr": tuning.rate * scale, "weight_decay": decay}
        for (scale, decay), parameters in groups.items()
    ]
    return torch.optim.AdamW(described, lr=tuning.rate, betas=tuning.betas)


def rate_share(step: int, steps: int) -> float:
    """The share of the peak rate for a step, counted from 0: a linear rise, then half a cosine."""
    warm_up = min(LONGEST_WARM_UP, math.ceil(WARM_UP_SHARE * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / max(1, steps - warm_up)
    return FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * done)) / 2
