"""The hidden states at taps, as training reads them: tap n is what enters layer n, and the number of layers what leaves
the last. It may not know any draft kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from training.draft_models.features import FrozenTarget
from training.draft_models.recipe import FeatureNeeds, Features


def needs_of(target: FrozenTarget, taps: Sequence[int]) -> FeatureNeeds:
    """The features that `tapped` reads, and logits."""
    layers = target.config.num_hidden_layers
    entered = tuple(layers - tap for tap in taps if tap < layers)
    return FeatureNeeds(hidden=entered, unnormed=layers in taps, logits=True)


def tapped(target: FrozenTarget, features: Features, taps: Sequence[int]) -> torch.Tensor:
    """Float32 `[R, T, taps * E]`."""
    layers = target.config.num_hidden_layers
    states = [features.unnormed if tap == layers else features.hidden[layers - tap] for tap in taps]
    return torch.cat([state.float() for state in states if state is not None], dim=-1)
