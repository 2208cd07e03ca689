"""The options that only `outrider-train tandem` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options
from training.draft_models.shared_options import Alone, Layers, Missing, Size


def options(
    layers: Layers = None,
    size: Size = None,
    state_width: Annotated[
        int | None, typer.Option(min=1, help="Numbers of a token's state; by default twice a layer's keys.")
    ] = None,
    missing: Missing = None,
    alone: Alone = None,
) -> Options:
    return {"layers": layers, "size": size, "state_width": state_width, "missing": missing, "alone": alone}
