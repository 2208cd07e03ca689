"""What the recipes of heads that depend on the path share, Hydra's and Clover's: teacher-forced losses of all heads in
one batch, and their measuring.

What may live here: the losses and evaluation of such heads. It may not know how a head computes, data or schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax, softmax

from common.draft_models.exporters import HiddenExporter
from common.draft_models.layers import masked_attention
from common.draft_models.path_heads import PathHeads
from common.drafters.drafter import Drafter
from common.drafters.load import SPARE_SLOTS
from common.drafters.path_heads import PathHeadsNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.models.parts import projection_of
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.lags import causal
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

# Shape letters: R rows, T columns, E hidden size, V vocabulary, P learned positions, K tokens of a path.


class PathHeadsTraining:
    """Of a recipe everything but building, saving and describing."""

    def __init__(self, kind: str, target: FrozenTarget, draft: PathHeads, decay: float, hard: float, soft: float):
        """`decay`: the weight of each head's loss in that of the one before. `hard`, `soft`: the weights of the
        cross-entropy with the tokens, and with the target's distribution. Raises MisuseError where they teach
        nothing."""
        if min(decay, hard, soft) < 0 or hard + soft == 0:
            raise MisuseError("the weights of losses must not be below 0, nor both 0")
        self.kind = kind
        self.needs = FeatureNeeds(hidden=(0,))
        self.tuning = Tuning(rate=1e-3)
        self.draft = draft
        self.draft.begin_from(projection_of(target.head).get_parameter("weight").detach())
        self.module: nn.Module = nn.ModuleDict({"draft": draft})
        self._target = target
        self._decay = decay
        self._hard = hard
        self._soft = soft

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        """The weighted sum of the heads' losses, each a mean over its positions."""
        hidden = features.hidden[0].float()
        base = self._prepare(hidden)
        with torch.no_grad():
            embedded = self._target.embedding(batch.ids).float()
        coming = batch.ids.roll(-1, dims=1)
        losses, metrics = [], {}
        for ahead in range(1, self.draft.config.heads + 1):
            # Learned where both the next token, which the target says, and the one that this head predicts are to be.
            learn = batch.learn[:, :-ahead] & batch.learn[:, ahead:]
            columns = learn.shape[1]
            path = torch.stack([embedded[:, step : step + columns][learn] for step in range(1, ahead + 1)], dim=1)
            logits = self.draft.logits(base[:, :columns][learn], path, self._target.head).float()
            came, count = coming[:, ahead:][learn], max(1, int(learn.sum()))
            loss = logits.sum() * 0.0
            if self._hard:
                loss = loss + self._hard * cross_entropy(logits, came, reduction="sum") / count
            if self._soft:
                with torch.no_grad():
                    likely = softmax(self._target.head(hidden[:, ahead:][learn]).float(), dim=-1)
                loss = loss - self._soft * (likely * log_softmax(logits, dim=-1)).sum() / count
            losses.append(self._decay**ahead * loss)
            metrics[f"head {ahead}"] = ((logits.argmax(-1) == came).sum() / count).detach()
        return LossParts(torch.stack(losses).sum(), metrics)

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        exporters = [HiddenExporter(self._target.config.hidden_size)]
        return Evaluation({0: answer_all(self._target, self._drafter, exporters, prompts, size)})

    def _drafter(self, context: int) -> Drafter:
        """On a copy of the present weights."""
        target = self._target
        draft = deepcopy(self.draft).to(target.model.dtype).requires_grad_(False)
        capacity = context + SPARE_SLOTS
        return TreeDrafter(
            PathHeadsNetwork(self.kind, draft, target.embedding, target.head, StateRequest("trained"), capacity)
        )

    def _prepare(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the heads read of hidden states `[R, T, E]`."""
        if self.draft.prefix is None:
            return hidden
        columns = torch.arange(hidden.shape[1], device=hidden.device).expand(hidden.shape[:2])
        out: torch.Tensor = self.draft.prefix(hidden, columns, masked_attention(causal(columns)[:, None]))
        return out
