"""The options that only `outrider-train clover` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    heads: Annotated[int | None, typer.Option(min=1, help="Tokens ahead that are learned.")] = None,
    distil: Annotated[
        bool, typer.Option("--distil", help="Learn the target's distribution instead of the text's tokens.")
    ] = False,
) -> Options:
    return {"heads": heads, "distil": distil}
