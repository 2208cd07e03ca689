"""One resumable training run under a budget of active seconds.

What may live here: the learning-rate plan, the optimiser step, checkpoints and the count of active time. It may not
know which data or which loss it trains on; both come as functions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from training.demo.batching import Batch

PAUSE_FACTOR = 4.0

Loss = Callable[[LlamaForCausalLM, Batch], torch.Tensor]


@dataclass(frozen=True)
class LoopSettings:
    """`seconds` of active time decide the length: warm-up by steps, then a plateau, then a linear decay."""

    seconds: float
    peak_rate: float = 2e-3
    warmup_steps: int = 100
    decay_share: float = 0.45
    final_rate_share: float = 0.02
    weight_decay: float = 0.1
    clip: float = 1.0
    save_every_steps: int = 100


@dataclass
class Progress:
    """How far a run has come. `seconds` is active time; `loss` a moving average in nats per learned token."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    learned_tokens: int = 0
    loss: float = 0.0
    step_seconds: float = 0.0


def learning_rate(settings: LoopSettings, progress: Progress) -> float:
    """The rate for the next step, by steps during warm-up and by the share of the budget used after it."""
    warmup = min(1.0, (progress.step + 1) / settings.warmup_steps)
    left = max(0.0, 1.0 - progress.seconds / settings.seconds)
    decay = min(1.0, left / settings.decay_share)
    return settings.peak_rate * warmup * max(settings.final_rate_share, decay)


def active_time(elapsed: float, typical: float) -> float:
    """Elapsed seconds of one step, with a pause of the process cut down to a few typical steps."""
    return min(elapsed, PAUSE_FACTOR * typical) if typical > 0 else elapsed


def run(
    model: LlamaForCausalLM,
    batches: Callable[[int], Batch],
    loss: Loss,
    settings: LoopSettings,
    checkpoint: Path,
    report: Callable[[Progress], None] = lambda progress: None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Train `model` in place until the budget is used; continue from `checkpoint` where it exists."""
    optimizer = new_optimizer(model, settings)
    progress = restore(model, optimizer, checkpoint) if checkpoint.exists() else Progress()
    model.train()
    while progress.seconds < settings.seconds:
        started = clock()
        batch = batches(progress.step)
        rate = learning_rate(settings, progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(model, batch)
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        advance(progress, batch, float(value.detach()), clock() - started)
        report(progress)
        if progress.step % settings.save_every_steps == 0:
            save(model, optimizer, progress, checkpoint)
    save(model, optimizer, progress, checkpoint)
    return progress


def advance(progress: Progress, batch: Batch, loss: float, elapsed: float) -> None:
    spent = active_time(elapsed, progress.step_seconds)
    first = progress.step == 0
    progress.seconds += spent
    progress.step_seconds = spent if first else 0.9 * progress.step_seconds + 0.1 * spent
    progress.loss = loss if first else 0.98 * progress.loss + 0.02 * loss
    progress.step += 1
    progress.tokens += int((batch.ids != 0).sum())
    progress.learned_tokens += len(batch.targets)


def new_optimizer(model: LlamaForCausalLM, settings: LoopSettings) -> torch.optim.AdamW:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.peak_rate, betas=(0.9, 0.95), fused=True)


def save(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, progress: Progress, checkpoint: Path) -> None:
    """Write the checkpoint so that a crash leaves either the old one or the new one."""
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": asdict(progress),
    }
    partial = checkpoint.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, checkpoint)


def restore(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, checkpoint: Path) -> Progress:
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(**state["progress"])
