"""The options that only `outrider-train block` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options
from training.draft_models.shared_options import Alone, Missing


def options(
    length: Annotated[int | None, typer.Option(min=2, help="Positions that one forward predicts.")] = None,
    size: Annotated[
        float | None,
        typer.Option(help="Trained parameters of what it shares with tandem, as multiples of a target layer's."),
    ] = None,
    missing: Missing = None,
    alone: Alone = None,
    uncorrected: Annotated[
        bool, typer.Option("--uncorrected", help="Train without the correction along paths, to compare.")
    ] = False,
) -> Options:
    return {"length": length, "size": size, "missing": missing, "alone": alone, "uncorrected": uncorrected}
