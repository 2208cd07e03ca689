"""The options that only `outrider-train moa` has. It may not import torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from common.protocol.errors import MisuseError
from training.draft_models.commands import Options
from training.draft_models.shared_options import Alone, Missing


def options(
    layers: Annotated[
        str | None,
        typer.Option(help="Numbers of the target's last layers that the client may run.", show_default="0,1,3"),
    ] = None,
    size: Annotated[
        float | None, typer.Option(help="Trained parameters for each number, as a multiple of a target layer's.")
    ] = None,
    mixer: Annotated[
        str | None, typer.Option(help="How all layers become a token's state: mixture, attention or mean.")
    ] = None,
    missing: Missing = None,
    alone: Alone = None,
    published: Annotated[bool, typer.Option("--published", help="The form and training of the paper.")] = False,
    state_width: Annotated[
        int | None, typer.Option(help="Numbers of a token's state that travel: a learnt codec.", show_default="all")
    ] = None,
    state_dtype: Annotated[
        str | None,
        typer.Option(help="The dtype in which they travel and are trained: a learnt codec, int4 by default."),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="A finished draft of this kind whose weights to start from.")
    ] = None,
    draft_vocabulary: Annotated[int | None, typer.Option(min=1, help="Most frequent tokens to propose from.")] = None,
) -> Options:
    depths = numbers("--layers", layers) if layers is not None else None
    return {
        "layers": depths,
        "size": size,
        "mixer": mixer,
        "missing": missing,
        "alone": alone,
        "published": published,
        "state_width": state_width,
        "state_dtype": state_dtype,
        "start": start_from,
        "draft_vocabulary": draft_vocabulary,
    }


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers from 0, separated by commas, in order, each once. Raises `MisuseError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise MisuseError(f"{option} {text} must be whole numbers with commas between them, such as 0,1,3")
    return tuple(sorted({int(part) for part in parts}))
