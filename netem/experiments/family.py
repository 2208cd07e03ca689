"""What an experiment on the demo family loads. Nothing else may live here."""

from collections.abc import Mapping
from pathlib import Path

from client.demo.family import find_family
from netem.experiments.experiment import Request


def models(request: Request) -> Mapping[str, Path]:
    """Raises OutriderError where the family is not whole."""
    family = find_family(request.models)
    return {"target": family.target, "draft": family.draft}
