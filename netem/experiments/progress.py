"""How far an experiment is, as a bar on stderr. Nothing else may live here."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common.programs.console import PlainConsole
from netem.experiments.experiment import Advance


@contextmanager
def progress_bar(name: str) -> Iterator[Advance]:
    columns = (TextColumn(name), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=PlainConsole(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda doing, share: progress.update(task, description=doing, completed=share)
