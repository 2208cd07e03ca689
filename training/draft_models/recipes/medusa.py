"""`medusa`: Medusa-1, heads on the frozen target, and Medusa-2, heads together with the target, which makes a new one
(Cai et al. 2024, arXiv 2401.10774).

What may live here: the losses, evaluation and saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from common.draft_models.exporters import HiddenExporter
from common.draft_models.medusa import KIND, RANKS, MedusaConfig, MedusaDraft, assumed_accuracies, save_medusa
from common.drafters.medusa import MedusaDrafter
from common.models.fingerprint import fingerprint
from common.models.parts import head_of, projection_of, stack_of
from common.models.quantised import settle
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.rounds import RoundsAnswer
from training.draft_models.calibration import measure_accuracies, whole_sequences
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all, packed_target
from training.draft_models.recipe import (
    Batch,
    Evaluation,
    FeatureNeeds,
    Features,
    LossParts,
    Moment,
    RoundsSize,
    Tuning,
)
from training.draft_models.saved_target import save_target

# Shape letters: R rows, T columns, E hidden size, V vocabulary.

HEAD_DECAY = 0.8
"""The weight of each head's loss in that of the one before."""

HEAD_RATE = 4.0
"""Medusa-2: the heads' learning rate in the target's."""

JOINT_WEIGHT = 0.2
"""Medusa-2: the heads' loss beside the target's own."""

HEADS_ONLY_SHARE = 0.4
"""Medusa-2's first stage, in which the target stands still: its untrained heads would disturb it."""

TARGET_FOLDER = "target"


class Accuracies(nn.Module):
    """Measured on held-out prompts, and part of the trained module so that they survive a resumed run."""

    measured: torch.Tensor

    def __init__(self, heads: int, ranks: int):
        super().__init__()
        self.register_buffer("measured", torch.tensor(assumed_accuracies(heads), dtype=torch.float64)[:, :ranks])

    def table(self) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(head) for head in self.measured.tolist())


class MedusaRecipe:
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        heads: int = 4,
        blocks: int = 1,
        shared_head: bool = False,
        train_target: bool = False,
        chain: bool = False,
    ):
        """`heads` positions are drafted, each from `blocks` residual blocks and a head of its own, or with
        `shared_head` the target's. `train_target` is Medusa-2. With `chain` the likeliest token of each head alone is
        drafted; with `shared_head` too that is Blockwise Parallel Decoding (Stern et al. 2018, arXiv 1811.03115).
        Raises MisuseError below one head or block, and where weights of a target to train are in few bits."""
        if heads < 1 or blocks < 1:
            raise MisuseError("--heads and --blocks must be at least 1")
        if train_target and getattr(target.model, "is_quantized", False):  # not where plain numbers were made of it
            raise MisuseError(
                f"--train-target cannot train {target.name}, whose weights are in few bits: choose the checkpoint that "
                "it was made from, or leave --train-target out"
            )
        self._target = target
        self._backbone: PreTrainedModel | None = _trainable(target.model) if train_target else None
        self._ranks = 1 if chain else RANKS
        self.accuracies = Accuracies(heads, self._ranks)
        config = MedusaConfig(
            target.config.hidden_size, target.config.vocab_size, self.accuracies.table(), blocks, shared_head
        )
        self.draft = MedusaDraft(config)
        self.draft.begin_from(projection_of(target.head).get_parameter("weight").detach())
        self.module = nn.ModuleDict({"draft": self.draft, "accuracies": self.accuracies})
        self.needs = FeatureNeeds(hidden=(0,))
        self.tuning = Tuning(rate=1e-3)
        if self._backbone is not None:
            self.module["target"] = self._backbone
            self.needs = FeatureNeeds()
            self.tuning = Tuning(rate=2.5e-4, rate_scales={"draft.": HEAD_RATE})

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        if self._backbone is None:
            return self._heads_loss(batch, features.hidden[0].float(), self._target.head)
        model: Any = self._backbone
        if moment.share < HEADS_ONLY_SHARE:
            with torch.no_grad():
                hidden = stack_of(model)(input_ids=batch.ids, use_cache=False).last_hidden_state
            # Heads that share the target's would train it; so far it is the frozen one's.
            return self._heads_loss(batch, hidden, self._target.head)
        hidden = stack_of(model)(input_ids=batch.ids, use_cache=False).last_hidden_state
        own = cross_entropy(head_of(model)(hidden[batch.learn]).float(), batch.targets)
        heads = self._heads_loss(batch, hidden, head_of(model))
        return LossParts(own + JOINT_WEIGHT * heads.total, {**heads.metrics, "target": own.detach()})

    def _heads_loss(self, batch: Batch, hidden: torch.Tensor, head: nn.Module) -> LossParts:
        """The weighted sum of the heads' cross-entropies, each a mean over its positions."""
        losses, metrics = [], {}
        for index in range(self.draft.config.heads):
            ahead = index + 1
            # Learned where both the next token, which the target says, and the one that this head predicts are to be.
            learn = batch.learn[:, :-ahead] & batch.learn[:, ahead:]
            logits = self.draft.logits(index, hidden[:, :-ahead][learn], head).float()
            came = batch.ids.roll(-1, dims=1)[:, ahead:][learn]
            count = max(1, len(came))
            losses.append(HEAD_DECAY**ahead * cross_entropy(logits, came, reduction="sum") / count)
            metrics[f"head {ahead}"] = (logits.argmax(-1) == came).sum() / count
        return LossParts(torch.stack(losses).sum(), metrics)

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        """Answers to either half of the prompts with the tree chosen from the other half's accuracies, and to a single
        prompt with the one that is assumed; the accuracies of all prompts are saved with the draft."""
        target = self._target if self._backbone is None else _with_model(self._target, self._backbone)
        halves = [half for half in (prompts[::2], prompts[1::2]) if half]
        tables, weights = [], []
        for half in halves:
            answers = self._answer(target, half, size, self.accuracies.measured)
            samples = whole_sequences(half, [answer.tokens for answer in answers])
            packed = packed_target(target, self._exporters(), max(len(tokens) for tokens, _ in samples))
            measured = measure_accuracies(packed, target.head, self.draft_for(target), samples)
            tables.append(measured[:, : self._ranks])
            weights.append(sum(len(answer.tokens) for answer in answers))
        shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        self.accuracies.measured.copy_(torch.einsum("n,nhk->hk", shares, torch.stack(tables)))
        assumed = Accuracies(self.draft.config.heads, self._ranks).measured
        others = reversed(tables) if len(tables) > 1 else [assumed]
        found = [
            answer
            for half, table in zip(halves, others, strict=True)
            for answer in self._answer(target, half, size, table)
        ]
        firsts = {f"head {index + 1}": float(head[0]) for index, head in enumerate(self.accuracies.measured)}
        return Evaluation({0: found}, firsts)

    def save(self, out: Path) -> Path | None:
        identity, new_target = self._target.fingerprint, None
        if self._backbone is not None:
            new_target = out / TARGET_FOLDER
            save_target(new_target, self._backbone, self._target)
            identity = fingerprint(new_target)
        save_medusa(out, identity, deepcopy(self.draft).to(torch.bfloat16), self.accuracies.table())
        return new_target

    def describe(self) -> Mapping[str, str]:
        config = self.draft.config
        return {
            "form": "Medusa-1, the target frozen" if self._backbone is None else "Medusa-2, with a new target",
            "heads": f"{config.heads} of {config.blocks} residual block{'s' * (config.blocks > 1)}",
            "ends in": "the target's head" if config.shared_head else "a head of its own",
            "drafts": "a chain" if self._ranks == 1 else "a sparse tree",
        }

    def draft_for(self, target: FrozenTarget, accuracies: torch.Tensor | None = None) -> MedusaDraft:
        """A copy of the heads in the target's dtype, with these accuracies or the initial ones."""
        config = self.draft.config
        if accuracies is not None:
            config = replace(config, accuracies=tuple(tuple(head) for head in accuracies.tolist()))
        draft = MedusaDraft(config)
        draft.load_state_dict(self.draft.state_dict())
        return draft.to(projection_of(target.head).get_parameter("weight"))

    def _answer(
        self,
        target: FrozenTarget,
        prompts: Sequence[Sequence[int]],
        size: RoundsSize,
        table: torch.Tensor,
    ) -> list[RoundsAnswer]:
        draft = self.draft_for(target, table)
        return answer_all(
            target,
            lambda _: MedusaDrafter(draft, target.head, StateRequest("trained")),
            self._exporters(),
            prompts,
            size,
        )

    def _exporters(self) -> list[HiddenExporter]:
        return [HiddenExporter(self._target.config.hidden_size)]


def _trainable(model: PreTrainedModel) -> PreTrainedModel:
    copied: Any = deepcopy(model)
    trainable: PreTrainedModel = copied.float().requires_grad_(True)
    return trainable


def _with_model(target: FrozenTarget, backbone: PreTrainedModel) -> FrozenTarget:
    """For measuring: a copy in the target's dtype, because a `PackedModel` takes over the model that it is given."""
    model: Any = deepcopy(backbone)
    settle(model, target.model.dtype)
    return replace(target, model=model.requires_grad_(False))


def build(
    target: FrozenTarget,
    heads: int = 4,
    blocks: int = 1,
    shared_head: bool = False,
    train_target: bool = False,
    chain: bool = False,
) -> MedusaRecipe:
    """As `MedusaRecipe`."""
    return MedusaRecipe(target, heads, blocks, shared_head, train_target, chain)
