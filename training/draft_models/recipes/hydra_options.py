"""The options that only `outrider-train hydra` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    heads: Annotated[int | None, typer.Option(min=1, help="Tokens ahead that are predicted.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Residual blocks of each.")] = None,
    shared_head: Annotated[bool, typer.Option("--shared-head", help="Take the target's head for all.")] = False,
    plus: Annotated[
        bool, typer.Option("--plus", help="Hydra++: a layer before the heads, deeper heads, distilled.")
    ] = False,
) -> Options:
    return {"heads": heads, "blocks": blocks, "shared_head": shared_head, "plus": plus}
