"""Options that `outrider-train` has for several kinds of draft. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

Missing = Annotated[
    float | None, typer.Option(help="Share of samples that lack a span of the prompt's state.", show_default="0")
]
Alone = Annotated[
    float | None,
    typer.Option(help="Share of samples whose state stops for good, as at a cut or private text.", show_default="0"),
]
Size = Annotated[float | None, typer.Option(help="Trained parameters, as a multiple of a target layer's.")]
Layers = Annotated[int | None, typer.Option(min=1, help="Layers of the draft.")]
