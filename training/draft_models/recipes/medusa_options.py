"""The options that only `outrider-train medusa` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    heads: Annotated[int | None, typer.Option(min=1, help="Tokens ahead that are predicted.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Residual blocks of each.")] = None,
    shared_head: Annotated[bool, typer.Option("--shared-head", help="Take the target's head for all.")] = False,
    train_target: Annotated[
        bool, typer.Option("--train-target", help="Train the target along with the heads and write it as a new one.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="Draft a chain; with --shared-head, this is Blockwise Parallel Decoding."),
    ] = False,
) -> Options:
    own = {"heads": heads, "blocks": blocks, "shared_head": shared_head}
    return own | {"train_target": train_target, "chain": chain}
