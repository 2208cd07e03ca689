"""The server's half of draft models that read hidden states of several of the target's layers: one linear map to the
vector that travels, normalised.

What may live here: the map, and how its layers are named. It may not know any draft kind.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from common.draft_models.directory import EXPORTER_WEIGHTS, load_into
from common.draft_models.layers import RmsNorm
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError


class StateFuse(nn.Linear):
    """From `[..., taps * E_t]`, the hidden states at the taps, to `[..., W]`. Normalised, as its numbers travel in few
    bits."""

    def __init__(self, inputs: int, outputs: int, epsilon: float):
        super().__init__(inputs, outputs, bias=False)
        self.out_norm = RmsNorm(outputs, epsilon)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out_norm(super().forward(states))
        return out


def load_state_fuse(directory: Path, inputs: int, outputs: int, epsilon: float) -> StateFuse:
    """Frozen. Raises CheckpointError where it is not there or broken."""
    fuse = StateFuse(inputs, outputs, epsilon)
    load_into(fuse, read_tensors(directory, EXPORTER_WEIGHTS), directory)
    return fuse


def check_taps(taps: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of the layers whose inputs are read, from 0; the target's number of layers is what leaves the last.
    Raises TypeError or ValueError where they cannot be."""
    numbers = tuple(int(tap) for tap in taps)
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError("a layer is read twice, or none is")
    return numbers


def check_reach(taps: Sequence[int], layers: int, directory: Path) -> tuple[int, ...]:
    """Raises CheckpointError for taps behind the last of a target's `layers`."""
    if max(taps) > layers:
        raise CheckpointError(
            f"the draft model in {directory} was made for another target: it reads layer {max(taps)}, and this one has "
            f"{layers}; train one for this target with `outrider-train`"
        )
    return tuple(taps)
