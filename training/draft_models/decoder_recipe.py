"""What recipes of small decoders have in common that attend to the target's state: received state is drawn with lags
and gaps, as at inference, and the target's distribution is learned.

What may live here: the loss, the measuring and the options of such kinds. It may not know how any of them attends, nor
data, schedules or the loop.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import kl_div, log_softmax

from common.draft_models.exporters import StateExporter
from common.drafters.drafter import Drafter
from common.drafters.load import SPARE_SLOTS
from common.drafters.tree_drafter import DraftNetwork, TreeDrafter
from common.models.decoder import CausalLm
from common.protocol.messages import StateRequest
from training.draft_models.exact_text import figure, percent
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.lags import Received, draw_received, lag_settings
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, RoundsSize, Tuning
from training.draft_models.tail_forward import frozen_tail

# Shape letters: R rows, T columns, E hidden size.


@dataclass(frozen=True)
class DecoderSize:
    """`size`: trainable parameters, in layers of the target. `missing`, `alone`: as for `moa`."""

    layers: int = 1
    size: float = 1.25
    missing: float = 0.0
    alone: float = 0.0


class DecoderRecipe(ABC):
    """A kind defines the network, what it sees, and what is saved."""

    kind: str
    module: nn.Module

    def __init__(self, target: FrozenTarget, size: DecoderSize):
        """Raises MisuseError for values that are no share."""
        self.tuning = Tuning(rate=3e-3)
        self._target = target
        self._size = size
        self._lags = lag_settings(size.missing, size.alone)
        self._tail = frozen_tail(target, 0)

    @abstractmethod
    def predict(self, batch: Batch, features: Features, received: Received, positions: torch.Tensor) -> torch.Tensor:
        """What the target's head reads, `[R, T, E]`; `positions [R, T]`."""

    @abstractmethod
    def network(self, tail: CausalLm, request: StateRequest, context: int, spare: int) -> DraftNetwork:
        """The drafter's, on a copy of the weights in the target's dtype."""

    @abstractmethod
    def exporter(self) -> StateExporter:
        """Of the draft state, on a copy of the weights in the target's dtype."""

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        assert features.logits is not None
        positions = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand_as(batch.ids)
        out = self.predict(batch, features, draw_received(batch, self._lags), positions)
        wanted = log_softmax(features.logits.float(), dim=-1)
        given = log_softmax(self._target.head(out[batch.learn]).float(), dim=-1)
        divergence = kl_div(given, wanted, reduction="batchmean", log_target=True)
        agreed = (given.argmax(-1) == wanted.argmax(-1)).float().mean()
        return LossParts(divergence, {"kl": divergence.detach(), "agreement": agreed})

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        return Evaluation({0: answer_all(self._target, self._drafter, [self.exporter()], prompts, size)})

    def describe(self) -> Mapping[str, str]:
        return {
            "layers": str(self._size.layers),
            "size": f"{figure(self._size.size)} target layers",
            "samples that lack a span of state": percent(self._size.missing),
            "samples whose state stops for good": percent(self._size.alone),
        }

    def copied(self, module: nn.Module) -> nn.Module:
        """A copy in the target's dtype."""
        return copy.deepcopy(module).to(self._target.model.dtype)

    def _drafter(self, context: int) -> Drafter:
        return TreeDrafter(self.network(self._tail, StateRequest("trained"), context, SPARE_SLOTS))
