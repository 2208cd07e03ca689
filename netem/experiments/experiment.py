"""What an experiment is: what it is asked, what it reports, and the table of all there are."""

import difflib
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError

Advance = Callable[[str, float], None]
"""Told what is being done and which share of the whole, 0 to 1, is behind it."""

Draw = Callable[[Any], None]
"""Draws the report's picture on matplotlib axes."""


@dataclass(frozen=True)
class Request:
    seed: int
    quick: bool  # within three minutes, for a first look
    data: Path | None = None  # the folder of public evaluation files, where an experiment needs them
    models: Path | None = None  # a folder with target, draft and prompts.jsonl; None for what is shipped


@dataclass(frozen=True)
class Report:
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]  # what a reader must know to read the table right
    results: Mapping[str, Any]
    draw: Draw
    faults: Sequence[str] = ()  # why the run is not valid, each as a phrase


@dataclass(frozen=True)
class Experiment:
    name: str
    description: str

    async def run(self, request: Request, advance: Advance) -> Report:
        module = importlib.import_module(f"netem.experiments.{self.name}")
        measure: Callable[[Request, Advance], Awaitable[Report]] = module.measure
        return await measure(request, advance)


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("streaming", "The streaming tree against lock-step rounds and cloud decoding, over several links."),
        Experiment("clients", "Eight clients at once on one server: sessions per pass, and nothing computed twice."),
        Experiment("exactness", "Greedy answers against transformers' own generate, over public prompts (--data)."),
    )
}


def find_experiment(name: str) -> Experiment:
    """Raises MisuseError, with near matches, for an unknown name."""
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        near = difflib.get_close_matches(name, EXPERIMENTS)
        advice = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(EXPERIMENTS)}"
        raise MisuseError(f"there is no experiment '{name}': {advice}")
    return experiment
