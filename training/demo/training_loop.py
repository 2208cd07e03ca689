"""One resumable training run of a given number of tokens.

What may live here: the learning-rate plan, the optimisers, the training step, checkpoints and the count of active
time. It may not know which data or which loss it trains on; both come as functions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from common.atomic import atomic_file
from common.clock import Clock
from common.protocol.errors import MisuseError
from training.demo.batching import ConversationBatch
from training.demo.muon import Muon
from training.writing import CONTINUED, written

PAUSE_FACTOR = 4.0

Loss = Callable[[LlamaForCausalLM, ConversationBatch], torch.Tensor]


@dataclass(frozen=True)
class TargetLoopSettings:
    """A run of `tokens` tokens, padding left out, or of `seconds` of active time, whichever ends first: warm-up by
    steps, then a plateau, then a linear decay to zero.

    The plateau does not depend on `tokens`, so an unfinished run may be resumed with another length
    (warmup-stable-decay, Hu et al. 2024, arXiv 2404.06395). Matrices of the layers are trained by Muon (Jordan et al.
    2024) at `matrix_rate`, embeddings and norms by AdamW at `vector_rate`.
    """

    tokens: int
    matrix_rate: float = 0.02
    vector_rate: float = 3e-3
    warmup_steps: int = 100
    decay_share: float = 0.4
    weight_decay: float = 0.1
    clip: float = 1.0
    save_every_steps: int = 100
    seconds: float = math.inf

    def left(self, progress: TargetProgress) -> float:
        """The share of the run that is still to come."""
        if progress.tokens >= self.tokens or progress.seconds >= self.seconds:
            return 0.0
        return 1.0 - max(progress.tokens / self.tokens, progress.seconds / self.seconds)


@dataclass
class TargetProgress:
    """How far a run has come. `seconds` is active time; `loss` a moving average in nats per learned token. `bfloat16`:
    whether it computes in that, which was measured when it began."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    learned_tokens: int = 0
    loss: float = 0.0
    step_seconds: float = 0.0
    bfloat16: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.bfloat16 else torch.float32


def rate_factor(settings: TargetLoopSettings, progress: TargetProgress) -> float:
    """What the peak rates are multiplied by in the next step."""
    warmup = min(1.0, (progress.step + 1) / settings.warmup_steps)
    return warmup * min(1.0, settings.left(progress) / settings.decay_share)


def active_time(elapsed: float, typical: float) -> float:
    """Elapsed seconds of one step; a pause of the process counts as a few typical steps."""
    return min(elapsed, PAUSE_FACTOR * typical) if typical > 0 else elapsed


def run(
    model: LlamaForCausalLM,
    batches: Callable[[int], ConversationBatch],
    loss: Loss,
    settings: TargetLoopSettings,
    checkpoint: Path,
    report: Callable[[TargetProgress], None] = lambda progress: None,
    clock: Clock = time.monotonic,
) -> TargetProgress:
    """Train `model` in place, on its device, until the run ends; continue from `checkpoint` where it exists."""
    device = model.device
    if checkpoint.exists():
        progress, optimisers = resumed(model, settings, checkpoint)
    else:
        progress = TargetProgress(bfloat16=device.type != "cpu" or bfloat16_is_faster())
        optimisers = new_optimisers(model, settings, progress.dtype)
    model.train()
    while settings.left(progress) > 0:
        started = clock()
        batch = batches(progress.step).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=progress.bfloat16):
            value = loss(model, batch)
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        apply_gradients(optimisers, rate_factor(settings, progress))
        advance(progress, batch, float(value.detach()), clock() - started)
        report(progress)
        if progress.step % settings.save_every_steps == 0:
            save(model, optimisers, progress, checkpoint)
    save(model, optimisers, progress, checkpoint)
    return progress


def bfloat16_is_faster() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32, which its feature flags do not tell reliably."""

    def seconds(dtype: torch.dtype) -> float:
        left, right = torch.ones(512, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
        torch.mm(left, right)
        started = time.perf_counter()
        for _ in range(8):
            torch.mm(left, right)
        return time.perf_counter() - started

    return seconds(torch.bfloat16) < seconds(torch.float32)


def advance(progress: TargetProgress, batch: ConversationBatch, loss: float, elapsed: float) -> None:
    spent = active_time(elapsed, progress.step_seconds)
    first = progress.step == 0
    progress.seconds += spent
    progress.step_seconds = spent if first else 0.9 * progress.step_seconds + 0.1 * spent
    progress.loss = loss if first else 0.98 * progress.loss + 0.02 * loss
    progress.step += 1
    progress.tokens += int((batch.ids != 0).sum())
    progress.learned_tokens += len(batch.targets)


def new_optimisers(
    model: LlamaForCausalLM, settings: TargetLoopSettings, dtype: torch.dtype
) -> list[torch.optim.Optimizer]:
    """Muon, which iterates in `dtype`, for the matrices of the layers, AdamW for the rest; each group keeps its peak
    rate."""
    matrices = [parameter for parameter in model.model.layers.parameters() if parameter.ndim == 2]
    inside = set(map(id, matrices))
    others = [parameter for parameter in model.parameters() if id(parameter) not in inside]
    muon = Muon(matrices, lr=settings.matrix_rate, weight_decay=settings.weight_decay, dtype=dtype)
    adamw = torch.optim.AdamW(others, lr=settings.vector_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    for optimiser in (muon, adamw):
        for group in optimiser.param_groups:
            group["peak"] = group["lr"]
    return [muon, adamw]


def apply_gradients(optimisers: list[torch.optim.Optimizer], factor: float) -> None:
    """One step of each optimiser at `factor` times its peak rate; the gradients are used up."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = factor * group["peak"]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def save(
    model: LlamaForCausalLM, optimisers: list[torch.optim.Optimizer], progress: TargetProgress, checkpoint: Path
) -> None:
    """Write the checkpoint so that a crash leaves either the old one or the new one."""
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
        "progress": asdict(progress),
    }
    with written(checkpoint, CONTINUED), atomic_file(checkpoint) as file:
        torch.save(state, file)


def resumed(
    model: LlamaForCausalLM, settings: TargetLoopSettings, checkpoint: Path
) -> tuple[TargetProgress, list[torch.optim.Optimizer]]:
    """The progress and the optimisers that `checkpoint` holds; its weights are loaded into `model`. Raises MisuseError
    for a file that is broken or does not fit."""
    try:
        state = torch.load(checkpoint, weights_only=True, map_location=model.device)
        progress = TargetProgress(**state["progress"])
        optimisers = new_optimisers(model, settings, progress.dtype)
        model.load_state_dict(state["model"])
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
    # torch raises many kinds of exceptions for a broken or foreign file.
    except Exception as error:
        raise MisuseError(
            f"{checkpoint} does not fit this run: remove {checkpoint.parent} to start again, or choose another --out"
        ) from error
    return progress, optimisers
