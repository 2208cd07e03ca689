"""The options that only `outrider-train independent` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the draft.")] = None,
    hidden_size: Annotated[int | None, typer.Option(min=1, help="Its hidden size.")] = None,
    parameters: Annotated[int | None, typer.Option(min=1, help="Parameters to come close to instead.")] = None,
    token_weight: Annotated[float | None, typer.Option(help="Weight of the tokens beside the target's choice.")] = None,
) -> Options:
    return {"layers": layers, "hidden": hidden_size, "parameters": parameters, "token_weight": token_weight}
