"""The options that only `outrider-train dflash` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options
from training.draft_models.shared_options import Alone, Layers, Missing, Size


def options(
    length: Annotated[int | None, typer.Option(min=2, help="Rows of a block, the last known token among them.")] = None,
    layers: Layers = None,
    size: Size = None,
    missing: Missing = None,
    alone: Alone = None,
) -> Options:
    return {"length": length, "layers": layers, "size": size, "missing": missing, "alone": alone}
