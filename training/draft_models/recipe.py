"""The interface between the training loop, the features and the recipes of all draft kinds.

What may live here: frozen dataclasses and the `Recipe` protocol. It may not know any draft kind, nor data, files,
schedules or devices.

Vocabulary of shapes: R rows (one sample each), T columns (positions, padded on the right), L target layers,
E the target's hidden size, E_kv its key/value heads times their size, V its vocabulary, P learned positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from common.draft_models.measured_acceptance import LEVELS
from common.drafters.best_first import Expansion
from common.rounds import RoundsAnswer, accept_length


@dataclass(frozen=True)
class Batch:
    """R samples, one per row, position 0 first.

    `ids`: int64 [R, T], padded on the right with 0. `learn`: bool [R, T], True at position i where the token at i + 1
    is to be learned, that is, where it belongs to an answer; never True at a row's last token or in padding.
    `lengths`: int64 [R], tokens of each row that are no padding. With causal attention no mask is needed: padding
    comes last and is never learned.
    """

    ids: torch.Tensor
    learn: torch.Tensor
    lengths: torch.Tensor

    @property
    def answers(self) -> torch.Tensor:
        """bool [R, T], True where the token itself belongs to an answer (`learn` moved one to the right)."""
        moved = self.learn.roll(1, dims=1)
        moved[:, 0] = False
        return moved

    @property
    def filled(self) -> torch.Tensor:
        """bool [R, T], True where there is a token and no padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    @property
    def targets(self) -> torch.Tensor:
        """int64 [P], the tokens to be learned, in the row order of `learn`."""
        return self.ids.roll(-1, dims=1)[self.learn]

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.learn.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class FeatureNeeds:
    """The features of the target that a recipe needs for every batch. By default none: there is no forward pass.

    `hidden` holds numbers n: the hidden states `hidden_states[-1 - n]`. n = 0 is the last one after the final norm,
    n = 1 the input of the last layer, n = 3 the input of the last three layers, n = L the embedding. `unnormed` asks
    for what leaves the last layer, before the final norm, which is none of these.
    """

    key_values: bool = False
    hidden: tuple[int, ...] = ()
    unnormed: bool = False
    logits: bool = False


@dataclass(frozen=True)
class Features:
    """The frozen target's features of a batch, without gradients, in the target's dtype, on the batch's device.

    `key_values`: [L, R, T, 2 * E_kv], keys after RoPE then values, heads flattened; None unless asked for.
    `hidden`: n -> [R, T, E] for every n asked for. `unnormed`: [R, T, E]; None unless asked for.
    `logits`: [P, V], at the learned positions only, in the row order of `Batch.learn`; None unless asked for.
    Numbers at padding are meaningless.
    """

    key_values: torch.Tensor | None = None
    hidden: Mapping[int, torch.Tensor] = field(default_factory=dict)
    unnormed: torch.Tensor | None = None
    logits: torch.Tensor | None = None


@dataclass(frozen=True)
class Moment:
    """The position in the run: `step` of `steps`, counted from 0."""

    step: int
    steps: int

    @property
    def share(self) -> float:
        """The share of the run that is done, 0 to below 1, for a curriculum."""
        return self.step / self.steps


@dataclass(frozen=True)
class LossParts:
    """`total`: float32 scalar that is differentiated, a mean over the batch's learned positions.

    `metrics`: its parts and other figures, detached scalars by short name ("kl", "smooth_l1").
    """

    total: torch.Tensor
    metrics: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundsSize:
    """The most new tokens of an answer, drafted levels of a round, and nodes of its tree."""

    new_tokens: int
    levels: int = LEVELS
    nodes: int = Expansion.nodes


@dataclass(frozen=True)
class Evaluation:
    """`answers`: to the held-out prompts, for each number N of the target's last layers that the draft can run, 0 where
    it runs none; `details`: further figures by name."""

    answers: Mapping[int, Sequence[RoundsAnswer]]
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def by_depth(self) -> Mapping[int, float]:
        """The accept length for each N."""
        return {depth: accept_length(answers) for depth, answers in self.answers.items()}

    @property
    def accept_length(self) -> float:
        """For the first N, which is what is shown."""
        return next(iter(self.by_depth.values()))


@dataclass(frozen=True)
class Tuning:
    """The default hyperparameters of a draft kind; options of the command line override them.

    `rate`: peak learning rate. `rate_scales`: parameters of `Recipe.module` whose name starts with the key train at
    `rate` times the value. `weight_decay` applies to tensors of two axes and more.
    """

    rate: float = 1e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    rate_scales: Mapping[str, float] = field(default_factory=dict)


class Recipe(Protocol):
    """A draft model in training, made by `build(target, **options)` of its kind's file in `draft_models.recipes`.

    Exact resuming requires two things of a recipe: everything that training changes is in `module`'s state dict, and
    all
    randomness of `loss` comes from torch's default generators (`torch.rand` and the like). The loop seeds those
    before every call of `loss` from the seed, the step and the process.
    """

    kind: str
    """The name of the kind in `common/draft_kinds.py`, and of its command."""

    needs: FeatureNeeds
    tuning: Tuning

    module: nn.Module
    """Everything that trains, as one module in float32; what is frozen (the target, its embedding and head) stays out
    of it or has `requires_grad` False. Its state dict is what checkpoints hold."""

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        """The loss of one batch with at least one learned position, under autocast where the run asks for it. The last
        moment takes the most memory: it is tried before the run.

        The loop accumulates gradients, clips and steps; a recipe does none of it.
        """
        ...

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        """Answers with the draft model in its present state.

        prompts: token ids that end where the answer starts; a prompt and its new tokens fit the context. Called without
        gradients, with `module` in evaluation mode; must leave all weights as they were. The target may be put into a
        `PackedModel`: the loop restores its attention afterwards.
        """
        ...

    def save(self, out: Path) -> Path | None:
        """Write the finished draft directory, as `common.draft_models.directory` defines it, into the existing `out`.

        Returns the directory of the target that the draft model fits where that is a new one, trained along with it;
        else it fits the given one. The loop writes the model card beside it. Called again for an existing directory, it
        writes it anew.
        """
        ...

    def describe(self) -> Mapping[str, str]:
        """The options of this draft model by name, as rows of the model card ("layers": "0, 1, 3")."""
        ...
