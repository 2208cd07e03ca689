"""Draft models with random weights for a target, in the sizes that `outrider-train` chooses by default.

It may not know how they are served or run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from common.draft_models.eagle3 import TAPS, Eagle3Draft, Eagle3Fuse, default_taps, save_eagle3
from common.draft_models.moa import MoaDraft, make_lsa, save_moa
from netem.experiments.one_device import dimensions
from netem.experiments.one_device.dimensions import DraftDimensions, TargetDimensions, default_config, eagle3_config

Write = Callable[[Path, TargetDimensions, str, torch.dtype], None]


@dataclass(frozen=True, slots=True)
class SizedDraft:
    """name: of its row and its directory. layers: of the target, which the client runs. size: its dimensions for a
    target. write: None for `lookup`, which has no weights."""

    name: str
    kind: str
    layers: int
    size: Callable[[TargetDimensions], DraftDimensions]
    write: Write | None = None


def _write_moa(layers: int) -> Write:
    def write(directory: Path, target: TargetDimensions, fingerprint: str, dtype: torch.dtype) -> None:
        config = default_config(target, (layers,))
        halves = {layers: MoaDraft(config, layers).to(dtype)}
        save_moa(directory, fingerprint, config, halves, make_lsa(config).to(dtype))

    return write


def _write_eagle3(directory: Path, target: TargetDimensions, fingerprint: str, dtype: torch.dtype) -> None:
    config = eagle3_config(target)
    fuse = Eagle3Fuse(TAPS * target.hidden, target.hidden).to(dtype)
    kept = None if config.draft_vocabulary == target.vocabulary else torch.arange(config.draft_vocabulary)
    save_eagle3(directory, fingerprint, Eagle3Draft(config).to(dtype), fuse, default_taps(target.layers), kept)


def _moa(layers: int) -> SizedDraft:
    def size(target: TargetDimensions) -> DraftDimensions:
        return dimensions.moa(target, default_config(target, (layers,)), layers)

    return SizedDraft(f"moa-n{layers}", "moa", layers, size, _write_moa(layers))


LOOKUP = SizedDraft("lookup", "lookup", 0, lambda _: dimensions.LOOKUP)
EAGLE3 = SizedDraft("eagle3", "eagle3", 0, dimensions.eagle3, _write_eagle3)
DRAFTS = (LOOKUP, EAGLE3, _moa(0), _moa(1))
