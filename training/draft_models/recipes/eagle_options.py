"""The options that only `outrider-train eagle` has. It may not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from training.draft_models.commands import Options


def options(
    feature_weight: Annotated[float | None, typer.Option(help="Weight of the distance to the features.")] = None,
    soft_weight: Annotated[float | None, typer.Option(help="Weight of the target's distribution.")] = None,
    hard_weight: Annotated[float | None, typer.Option(help="Weight of the tokens themselves.")] = None,
    noise: Annotated[float | None, typer.Option(help="Width of the noise on features.")] = None,
    intermediate: Annotated[int | None, typer.Option(min=1, help="Width of the feed-forward part.")] = None,
    draft_vocabulary: Annotated[int | None, typer.Option(min=1, help="Most frequent tokens to propose from.")] = None,
) -> Options:
    return {
        "feature_weight": feature_weight,
        "soft_weight": soft_weight,
        "hard_weight": hard_weight,
        "noise": noise,
        "intermediate": intermediate,
        "draft_vocabulary": draft_vocabulary,
    }
