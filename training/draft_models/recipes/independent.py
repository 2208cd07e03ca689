"""`independent`: a small causal LM of the target's family and tokenizer, distilled from it.

What may live here: the losses, evaluation and saving of this kind. It may not know data, schedules or the loop, nor
how a size is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import AutoModelForCausalLM, PreTrainedModel

from common.drafters.drafter import Drafter
from common.drafters.independent import IndependentNetwork
from common.drafters.load import SPARE_SLOTS
from common.drafters.tree_drafter import TreeDrafter
from common.models.packed import PackedModel
from common.models.parts import head_of, stack_of
from common.models.quantised import settle
from common.protocol.errors import MisuseError
from training.draft_models.exact_text import figure
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
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
from training.draft_models.recipes.independent_sizes import sized_config
from training.draft_models.saved_target import save_target

KIND = "independent"


class IndependentRecipe:
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        layers: int | None = None,
        hidden: int | None = None,
        parameters: int | None = None,
        token_weight: float = 0.1,
    ):
        """The size is `layers` of `hidden`, or the width that comes closest to `parameters`; see `sized_config`.
        `token_weight`: weight of the cross-entropy with the tokens, beside the divergence from the target.

        Raises MisuseError for a size that makes no model.
        """
        if token_weight < 0:
            raise MisuseError(f"--token-weight must not be below 0, not {token_weight:g}")
        self.needs = FeatureNeeds(logits=True)
        self.tuning = Tuning(rate=2e-3)
        config = sized_config(target, layers, hidden, parameters)
        family: Any = AutoModelForCausalLM
        self.module: PreTrainedModel = family.from_config(config, dtype=torch.float32)
        self._target = target
        self._token_weight = token_weight

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        assert features.logits is not None
        model: Any = self.module
        hidden = stack_of(model)(input_ids=batch.ids, use_cache=False).last_hidden_state
        logits = head_of(model)(hidden[batch.learn]).float()
        given, wanted = log_softmax(logits, dim=-1), log_softmax(features.logits.float(), dim=-1)
        divergence = kl_div(given, wanted, reduction="batchmean", log_target=True)
        tokens = cross_entropy(logits, batch.targets)
        agreed = (given.argmax(-1) == wanted.argmax(-1)).float().mean()
        return LossParts(
            divergence + self._token_weight * tokens,
            {"kl": divergence.detach(), "tokens": tokens.detach(), "agreement": agreed},
        )

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        return Evaluation({0: answer_all(self._target, self._drafter, (), prompts, size)})

    def save(self, out: Path) -> None:
        save_target(out, self.module, self._target, torch.bfloat16)

    def describe(self) -> Mapping[str, str]:
        config: Any = self.module.config
        return {
            "layers": str(config.num_hidden_layers),
            "hidden size": str(config.hidden_size),
            "losses": f"1 forward KL, {figure(self._token_weight)} cross-entropy",
        }

    def _drafter(self, context: int) -> Drafter:
        target = self._target
        model: Any = deepcopy(self.module)
        settle(model, target.model.dtype)
        packed = PackedModel(model.requires_grad_(False), context + SPARE_SLOTS)
        return TreeDrafter(IndependentNetwork(packed, target.config.vocab_size))


def build(
    target: FrozenTarget,
    layers: int | None = None,
    hidden: int | None = None,
    parameters: int | None = None,
    token_weight: float = 0.1,
) -> IndependentRecipe:
    """As `IndependentRecipe`."""
    return IndependentRecipe(target, layers, hidden, parameters, token_weight)
