"""A progress bar of a training run on standard error: loss, tokens per second, time left.

What may live here: how training progress looks. It may not know any recipe.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class TrainingBar:
    """One bar per stage. Use as a context manager; on a stream that is no terminal only stage names appear."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[rate]:,.0f} tok/s"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.name = ""
        self.task: TaskID | None = None

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def stage(self, name: str) -> None:
        self.name, self.task = name, None
        self.console.print(name)

    def advance(self, seconds: float, budget: float, loss: float, rate: float) -> None:
        """Show `seconds` of active time used out of `budget`."""
        if self.task is None:
            self.task = self.bar.add_task(self.name, total=budget, loss=loss, rate=rate)
        self.bar.update(self.task, completed=min(seconds, budget), loss=loss, rate=rate)
