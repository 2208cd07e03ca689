"""`hydra`: Hydra's heads, and Hydra++ with prefix attention, deeper heads and distillation (Ankner et al. 2024, arXiv
2402.05109).

What may live here: building, saving and describing this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import torch

from common.draft_models.hydra import KIND, HydraConfig, HydraDraft, save_hydra
from common.protocol.errors import MisuseError
from training.draft_models.features import FrozenTarget
from training.draft_models.layer_sizes import target_layer
from training.draft_models.path_heads import PathHeadsTraining

HEAD_DECAY = 0.8
"""As of Medusa: the weight of each head's loss in that of the one before."""

PLUS_BLOCKS = 4
"""Hydra++: residual blocks of each head."""


class HydraRecipe(PathHeadsTraining):
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        heads: int = 4,
        blocks: int | None = None,
        shared_head: bool = False,
        plus: bool = False,
    ):
        """`heads` positions are drafted, each from `blocks` residual blocks and a head of its own, or with
        `shared_head` the target's. `plus` is Hydra++: a layer before the heads, 4 blocks where nothing else is said,
        and the target's distribution instead of tokens as what is learned. Raises MisuseError below one head or
        block."""
        blocks = (PLUS_BLOCKS if plus else 1) if blocks is None else blocks
        if heads < 1 or blocks < 1:
            raise MisuseError("--heads and --blocks must be at least 1")
        config = HydraConfig(
            hidden=target.config.hidden_size,
            vocabulary=target.config.vocab_size,
            heads=heads,
            blocks=blocks,
            shared_head=shared_head,
            layer=target_layer(target) if plus else None,
        )
        super().__init__(KIND, target, HydraDraft(config), HEAD_DECAY, hard=float(not plus), soft=float(plus))

    def save(self, out: Path) -> None:
        draft = deepcopy(self.draft).to(torch.bfloat16)
        assert isinstance(draft, HydraDraft)
        save_hydra(out, self._target.fingerprint, draft)

    def describe(self) -> Mapping[str, str]:
        config = self.draft.config
        return {
            "form": "Hydra" if config.layer is None else "Hydra++, distilled, with prefix attention",
            "heads": f"{config.heads} of {config.blocks} residual block{'s' * (config.blocks > 1)}",
            "ends in": "the target's head" if config.shared_head else "a head of its own",
        }


def build(
    target: FrozenTarget, heads: int = 4, blocks: int | None = None, shared_head: bool = False, plus: bool = False
) -> HydraRecipe:
    """As `HydraRecipe`."""
    return HydraRecipe(target, heads, blocks, shared_head, plus)
