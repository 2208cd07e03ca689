"""`eagle`: EAGLE-1/2's layer with its published losses and noise (Li et al. 2024, arXiv 2401.15077).

What may live here: the losses, evaluation and saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax, smooth_l1_loss, softmax

from common.draft_models.eagle import KIND, EagleConfig, EagleDraft, save_eagle
from common.draft_models.exporters import HiddenExporter
from common.draft_models.layers import LayerShape, masked_attention
from common.draft_models.vocabulary import trim_head
from common.drafters.drafter import Drafter
from common.drafters.eagle import eagle_source
from common.drafters.feature_network import FeatureNetwork
from common.drafters.load import SPARE_SLOTS
from common.drafters.tree_drafter import TreeDrafter
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.exact_text import figure
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.layer_sizes import target_layer
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
from training.draft_models.token_counts import TokenCounts

# Shape letters: R rows, T columns, P learned positions, E hidden size, V vocabulary.

_NOISE_LENGTH = 512
"""The length of a sample at which the noise has its nominal width; longer ones get less."""


@dataclass(frozen=True)
class EagleLossWeights:
    """The weights of the smooth-L1 distance to the target's features, of the cross-entropy with the target's
    distribution, and of that with the tokens themselves."""

    feature: float = 1.0
    soft: float = 0.1
    hard: float = 0.0


class EagleRecipe:
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        weights: EagleLossWeights = EagleLossWeights(),
        noise: float = 0.2,
        intermediate: int | None = None,
        draft_vocabulary: int | None = None,
    ):
        """`noise`: width of the uniform noise on features, for samples of 512 tokens. `intermediate`: width of the
        layer's feed-forward part, by default the target's. `draft_vocabulary`: tokens that the draft may propose, the
        most frequent ones; None for all.

        Raises MisuseError for values that make no draft.
        """
        if min(weights.feature, weights.soft, weights.hard, noise) < 0 or weights == EagleLossWeights(0, 0, 0):
            raise MisuseError("the weights of losses and the noise must not be below 0, nor all weights 0")
        self.needs = FeatureNeeds(hidden=(0,))
        self.tuning = Tuning(rate=2e-3)
        self.draft = EagleDraft(EagleConfig(_layer(target, intermediate)))
        self.counts = TokenCounts(target.config.vocab_size, draft_vocabulary, target.end_tokens)
        self.module = nn.ModuleDict({"draft": self.draft, "counts": self.counts})
        self._target = target
        self._weights = weights
        self._noise = noise

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        self.counts.add(batch)
        hidden = features.hidden[0].float()
        rows = self._predict(batch, hidden)
        # Row i stands for token i + 1. What it predicts of a sample's second token on is learned.
        learn = batch.learn[:, 1:]
        predicted, wanted = rows[learn], hidden[:, 1:][learn]
        count = max(1, len(predicted))
        logits = self._target.head(predicted.to(self._target.model.dtype)).float()
        with torch.no_grad():
            likely = softmax(self._target.head(wanted.to(self._target.model.dtype)).float(), dim=-1)
        feature = smooth_l1_loss(predicted.float(), wanted, reduction="none").mean(-1).sum() / count
        soft = -(likely * log_softmax(logits, dim=-1)).sum() / count
        hard = cross_entropy(logits, batch.ids.roll(-1, dims=1)[:, 1:][learn], reduction="sum") / count
        total = self._weights.feature * feature + self._weights.soft * soft + self._weights.hard * hard
        agreed = (logits.argmax(-1) == likely.argmax(-1)).sum() / count
        return LossParts(
            total,
            {"smooth_l1": feature.detach(), "soft": soft.detach(), "hard": hard.detach(), "agreement": agreed.detach()},
        )

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        exporters = [HiddenExporter(self._target.config.hidden_size)]
        return Evaluation({0: answer_all(self._target, self._drafter, exporters, prompts, size)})

    def save(self, out: Path) -> None:
        draft = deepcopy(self.draft).to(torch.bfloat16)
        save_eagle(out, self._target.fingerprint, draft, self.counts.kept())

    def describe(self) -> Mapping[str, str]:
        weights = self._weights
        feature, soft, hard = map(figure, (weights.feature, weights.soft, weights.hard))
        return {
            "losses": f"{feature} smooth-L1, {soft} soft and {hard} hard cross-entropy",
            "noise": f"uniform, {figure(self._noise)} wide at {_NOISE_LENGTH} tokens",
            "feed-forward width": str(self.draft.config.layer.intermediate),
            "draft vocabulary": self.counts.describe(),
        }

    def _predict(self, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
        """The predicted features `[R, T - 1, E]` of every token but the first."""
        width = self._noise * _NOISE_LENGTH / batch.lengths[:, None, None]
        noisy = hidden[:, :-1] + (torch.rand_like(hidden[:, :-1]) - 0.5) * width
        with torch.no_grad():
            embedded = self._target.embedding(batch.ids[:, 1:]).float()
        columns = torch.arange(embedded.shape[1], device=embedded.device)
        causal = columns[None] <= columns[:, None]
        entered = self.draft.enter(embedded, noisy)
        out: torch.Tensor = self.draft(entered, columns.expand(len(entered), -1), masked_attention(causal))
        return out

    def _drafter(self, context: int) -> Drafter:
        target = self._target
        draft = deepcopy(self.draft).to(target.model.dtype)
        request = StateRequest("trained")
        kept = self.counts.kept()
        source = eagle_source(draft, target.embedding, trim_head(target.head, kept), kept)
        return TreeDrafter(FeatureNetwork(source, request, context, SPARE_SLOTS))


def _layer(target: FrozenTarget, intermediate: int | None) -> LayerShape:
    """A layer of the target's sizes, as in EAGLE: without input norm and biases. Raises MisuseError for a width below
    1."""
    if intermediate is not None and intermediate < 1:
        raise MisuseError(f"--intermediate must be at least 1, not {intermediate}")
    shape = target_layer(target, input_norm=False)
    return replace(shape, intermediate=intermediate or shape.intermediate, attention_bias=False)


def build(
    target: FrozenTarget,
    feature_weight: float = EagleLossWeights.feature,
    soft_weight: float = EagleLossWeights.soft,
    hard_weight: float = EagleLossWeights.hard,
    noise: float = 0.2,
    intermediate: int | None = None,
    draft_vocabulary: int | None = None,
) -> EagleRecipe:
    """As `EagleRecipe`."""
    weights = EagleLossWeights(feature_weight, soft_weight, hard_weight)
    return EagleRecipe(target, weights, noise, intermediate, draft_vocabulary)
