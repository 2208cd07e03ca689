"""`clover`: Clover's recurrent head behind its augmenting block (Xiao et al. 2024, arXiv 2405.00263).

What may live here: building, saving and describing this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import torch

from common.draft_models.clover import KIND, CloverConfig, CloverDraft, save_clover
from common.protocol.errors import MisuseError
from training.draft_models.features import FrozenTarget
from training.draft_models.layer_sizes import target_layer
from training.draft_models.path_heads import PathHeadsTraining

HEAD_DECAY = 0.8
"""The weight of each position's loss in that of the one before."""


class CloverRecipe(PathHeadsTraining):
    kind = KIND

    def __init__(self, target: FrozenTarget, heads: int = 5, distil: bool = False):
        """`heads` positions are learned. `distil`: from the target's distribution instead of the tokens, as Clover-2
        does (Xiao et al. 2024, arXiv 2408.00264). Raises MisuseError below one head."""
        if heads < 1:
            raise MisuseError("--heads must be at least 1")
        layer = target_layer(target)
        if layer.hidden % layer.heads:
            raise MisuseError("clover needs a target whose hidden size its attention heads divide")
        config = CloverConfig(target.config.hidden_size, target.config.vocab_size, heads, layer)
        super().__init__(KIND, target, CloverDraft(config), HEAD_DECAY, hard=float(not distil), soft=float(distil))

    def save(self, out: Path) -> None:
        draft = deepcopy(self.draft).to(torch.bfloat16)
        assert isinstance(draft, CloverDraft)
        save_clover(out, self._target.fingerprint, draft)

    def describe(self) -> Mapping[str, str]:
        return {
            "heads": f"{self.draft.config.heads} steps of one",
            "learned": "the distribution" if self._soft else "tokens",
        }


def build(target: FrozenTarget, heads: int = 5, distil: bool = False) -> CloverRecipe:
    """As `CloverRecipe`."""
    return CloverRecipe(target, heads, distil)
