"""The options that only `outrider-train glide` has. It may not import torch."""

from __future__ import annotations

from training.draft_models.commands import Options
from training.draft_models.shared_options import Alone, Layers, Missing, Size


def options(
    layers: Layers = None,
    size: Size = None,
    missing: Missing = None,
    alone: Alone = None,
) -> Options:
    return {"layers": layers, "size": size, "missing": missing, "alone": alone}
