"""The options that only `outrider-train eagle3` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    feedback_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps of the layer; from the second on, on its own output.", show_default="7"),
    ] = None,
    feature_weight: Annotated[
        float | None, typer.Option(help="Of the distance to the fused states.", show_default="1; the paper's is 0")
    ] = None,
    intermediate: Annotated[int | None, typer.Option(min=1, help="Width of the feed-forward part.")] = None,
    kv_heads: Annotated[
        int | None, typer.Option(min=1, help="Key/value heads of the layer.", show_default="the target's")
    ] = None,
    draft_vocabulary: Annotated[
        int | None,
        typer.Option(min=1, help="Most frequent tokens to propose from.", show_default="32000, at most the target's"),
    ] = None,
) -> Options:
    return {
        "feedback_steps": feedback_steps,
        "feature_weight": feature_weight,
        "intermediate": intermediate,
        "kv_heads": kv_heads,
        "draft_vocabulary": draft_vocabulary,
    }
