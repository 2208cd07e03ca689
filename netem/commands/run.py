"""`outrider-lab run`: runs an experiment with a progress bar on stderr, and writes its results. One that was broken off
goes on behind the last step that it finished, where its options, source, models and machine are the same."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from client.demo.children import ended_by_signals
from common.programs.console import PlainConsole
from netem.experiments.experiment import Advance, Experiment, Report, Request
from netem.experiments.inputs import inputs
from netem.experiments.provenance import computation, provenance, was_unchanged_since
from netem.experiments.report import TABLE, prepare, write_report
from netem.experiments.steps import UNFINISHED, StepFile
from netem.experiments.table import on_terminal

_PASSING = ("system", "tcp_congestion_control", "load_average_before")
"""What provenance says of a machine and no finished step depends on."""


def run_experiment(experiment: Experiment, request: Request, out: Path) -> bool:
    """Runs it, writes its files into `out` and prints its table, on a terminal within its width. Returns whether the
    run is valid.

    Raises OutriderError where a file is missing, the experiment cannot run or does not read an option.
    """
    experiment.check_options(request)
    prepare(out)
    origin = provenance(request.seed, experiment.checkpoints(request))
    origin["inputs"] = inputs(request)
    steps = StepFile(out / UNFINISHED, what_decides(experiment, request, origin), monotonic)
    with closing(steps), _progress_bar(experiment.name) as advance:
        report = asyncio.run(_measure(experiment, replace(request, steps=steps), advance))
    origin["seconds"] = round(steps.seconds)
    origin["uncommitted_changes"] |= not was_unchanged_since(origin["commit"])  # programs that it started are of both
    write_report(experiment, report, origin, out)
    steps.forget()
    table, console = (out / TABLE).read_text(encoding="utf-8"), PlainConsole()
    typer.echo(on_terminal(table, console.width) if console.is_terminal else table)
    return not report.faults


def what_decides(experiment: Experiment, request: Request, origin: Mapping[str, Any]) -> Any:
    """Equal for two runs only if the steps of one may be the other's. Source that no commit names equals nothing."""
    source = computation() or uuid4()
    same = {name: origin[name] for name in ("versions", "models", "inputs", "seed")}
    machine = {name: value for name, value in origin["machine"].items() if name not in _PASSING}
    return source, same, machine, experiment.name, request.quick, request.given


async def _measure(experiment: Experiment, request: Request, advance: Advance) -> Report:
    with ended_by_signals():
        return await experiment.run(request, advance)


@contextmanager
def _progress_bar(name: str) -> Iterator[Advance]:
    columns = (TextColumn(name), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=PlainConsole(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda doing, share: progress.update(task, description=doing, completed=share)
