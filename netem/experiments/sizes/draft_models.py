"""Draft models with random weights for a target, in the sizes that `outrider-train` chooses by default.

It may not know how they are served or run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from common.draft_models.eagle3 import TAPS, Eagle3Config, Eagle3Draft, default_taps, save_eagle3
from common.draft_models.moa import MoaDraft, make_lsa, save_moa
from netem.experiments.one_device.dimensions import TargetDimensions, default_config, frozen
from training.draft_models.layer_sizes import target_layer
from training.draft_models.recipes.eagle3 import DRAFT_VOCABULARY

Write = Callable[[Path, TargetDimensions, str, torch.dtype], None]


@dataclass(frozen=True, slots=True)
class SizedDraft:
    """name: of its row and its directory. layers: of the target, which the client runs. write: None for `lookup`, which
    has no weights."""

    name: str
    kind: str
    layers: int
    write: Write | None


def _write_moa(layers: int) -> Write:
    def write(directory: Path, target: TargetDimensions, fingerprint: str, dtype: torch.dtype) -> None:
        config = default_config(target, (layers,))
        halves = {layers: MoaDraft(config, layers).to(dtype)}
        save_moa(directory, fingerprint, config, halves, make_lsa(config).to(dtype))

    return write


def eagle3_config(target: TargetDimensions) -> Eagle3Config:
    shape = replace(target_layer(frozen(target), input_norm=False), attention_bias=False)
    return Eagle3Config(shape, target.vocabulary, min(DRAFT_VOCABULARY, target.vocabulary))


def _write_eagle3(directory: Path, target: TargetDimensions, fingerprint: str, dtype: torch.dtype) -> None:
    config = eagle3_config(target)
    fuse = nn.Linear(TAPS * target.hidden, target.hidden, bias=False).to(dtype)
    kept = None if config.draft_vocabulary == target.vocabulary else torch.arange(config.draft_vocabulary)
    save_eagle3(directory, fingerprint, Eagle3Draft(config).to(dtype), fuse, default_taps(target.layers), kept)


LOOKUP = SizedDraft("lookup", "lookup", 0, None)
EAGLE3 = SizedDraft("eagle3", "eagle3", 0, _write_eagle3)
MOA_0 = SizedDraft("moa-n0", "moa", 0, _write_moa(0))
MOA_1 = SizedDraft("moa-n1", "moa", 1, _write_moa(1))
DRAFTS = (LOOKUP, EAGLE3, MOA_0, MOA_1)
