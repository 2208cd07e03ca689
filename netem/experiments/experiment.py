"""The interface of experiments, their request and their report. It may not know which experiments there are."""

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.protocol.errors import MisuseError
from netem.experiments.steps import Steps

if TYPE_CHECKING:
    from netem.plots.picture import Draw

Advance = Callable[[str, float], None]
"""A callback for progress: what is being done, and the share of the whole that is done, 0 to 1."""

DATA, MODELS, DRAFT, TARGET = "--data", "--models", "--draft", "--target"
APPS, LLAMA_SERVER, DEVICE = "--apps", "--llama-server", "--device"
"""Options of `outrider-lab run` that only some experiments read."""


@dataclass(frozen=True)
class Request:
    """The options of a run.

    quick: a smaller run, within three minutes. data: the folder of public evaluation files, where an experiment needs
    them. models: a folder with target, draft models and prompts.jsonl; None for those that are shipped. drafts: names
    of draft models in that folder, in the order of the rows; empty for all. targets: names of targets, where an
    experiment makes several; empty for all. apps: environments in which apps are installed, beside this one.
    llama_server: the program of llama.cpp; None for the one on PATH. device: of the target, where an experiment may run
    on a GPU. steps: those that a run of the same options has finished before it was broken off, and where this one
    keeps its own.
    """

    seed: int
    quick: bool
    data: Path | None = None
    models: Path | None = None
    drafts: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    apps: tuple[Path, ...] = ()
    llama_server: Path | None = None
    device: str = "cpu"
    steps: Steps = field(default_factory=Steps, compare=False)

    @property
    def given(self) -> tuple[tuple[str, str], ...]:
        """The options that only some experiments read, as they were given, each with its value."""
        values: Mapping[str, Sequence[object]] = {
            DATA: (self.data,),
            MODELS: (self.models,),
            DRAFT: self.drafts,
            TARGET: self.targets,
            APPS: self.apps,
            LLAMA_SERVER: (self.llama_server,),
            DEVICE: () if self.device == "cpu" else (self.device,),
        }
        return tuple((option, str(value)) for option, each in values.items() for value in each if value is not None)


@dataclass(frozen=True)
class Report:
    """The results of a run.

    remarks: what a reader must know to read the table. results: for results.json. faults: why the run is not valid,
    each as a phrase; empty for a valid run.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]
    results: Mapping[str, Any]
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """An entry of the catalogue. Functions are given by name, because importing their modules takes long.

    module: the one that holds `measure`. plot: MODULE:FUNCTION that draws its results. models:
    MODULE:FUNCTION that finds the checkpoints which a run will load. options: those that it reads, of those that only
    some experiments do.
    """

    name: str
    description: str
    module: str
    plot: str
    models: str = "netem.experiments.experiment:demo_models"
    options: tuple[str, ...] = (MODELS,)

    async def run(self, request: Request, advance: Advance) -> Report:
        measure: Callable[[Request, Advance], Awaitable[Report]] = importlib.import_module(self.module).measure
        return await measure(request, advance)

    def check_options(self, request: Request) -> None:
        """Raises MisuseError for an option that the experiment does not read."""
        if unread := dict.fromkeys(option for option, _ in request.given if option not in self.options):
            instead = f"it reads {', '.join(self.options)}" if self.options else "leave it out"
            raise MisuseError(f"the experiment '{self.name}' does not read {', '.join(unread)}; {instead}")

    def checkpoints(self, request: Request) -> Mapping[str, Path]:
        """The checkpoints that a run will load, by name. Raises OutriderError where one is missing."""
        find: Callable[[Request], Mapping[str, Path]] = _named(self.models)
        return find(request)

    def draw(self) -> "Draw":
        """What draws its results. Imports matplotlib."""
        draw: Draw = _named(self.plot)
        return draw


def _named(function: str) -> Any:
    """The function that is called MODULE:NAME."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def demo_models(request: Request) -> Mapping[str, Path]:
    """The target and the draft model that the demo uses. Raises OutriderError where one is missing."""
    from client.demo.family import find_family

    family = find_family(request.models)
    return {"target": family.target, "draft": family.draft}


def no_models(_: Request) -> Mapping[str, Path]:
    """Of an experiment that makes its checkpoints itself."""
    return {}
