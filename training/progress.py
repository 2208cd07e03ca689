"""A progress bar of a training run on standard error: loss, accept length, tokens per second, time left.

What may live here: the display of training progress. It may not know any recipe.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from common.clock import Clock
from common.programs.console import PlainConsole

LINE_SECONDS = 30.0
"""The least time between two lines on a stream that is no terminal."""


class TrainingBar:
    """A context manager that shows one bar for each stage, or plain lines on a stream that is no terminal."""

    def __init__(self, console: Console | None = None, clock: Clock = time.monotonic) -> None:
        self.console = console or PlainConsole(stderr=True)
        self.clock = clock
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}{task.fields[accept]}"),
            TextColumn("{task.fields[rate]:,.0f} tok/s"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.name = ""
        self.task: TaskID | None = None
        self.begun: tuple[float, float] = (0.0, 0.0)
        self.next_line = 0.0

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def stage(self, name: str) -> None:
        self.name, self.task = name, None
        self.console.print(name, highlight=False, soft_wrap=True)

    def advance(self, done: float, total: float, loss: float, rate: float, accept_length: float | None = None) -> None:
        """Shows `done` of `total`, in any unit. rate: tokens per second."""
        accept = "" if accept_length is None else f", accept length {accept_length:.2f}"
        if self.task is None:
            self.task = self.bar.add_task(self.name, total=total, loss=loss, rate=rate, accept=accept)
            self.begun = (self.clock(), done)
            self.next_line = self.clock()
        self.bar.update(self.task, completed=min(done, total), loss=loss, rate=rate, accept=accept)
        if not self.console.is_terminal and (self.clock() >= self.next_line or done >= total):
            self.next_line = self.clock() + LINE_SECONDS
            line = (
                f"{self.name}: {done / total:.0%}, loss {loss:.3f}{accept}, {rate:,.0f} tok/s{self.left(done, total)}"
            )
            self.console.print(line, highlight=False, soft_wrap=True)

    def left(self, done: float, total: float) -> str:
        """The time left at the speed so far; empty until there is one."""
        started, first = self.begun
        if done <= first or done >= total:
            return ""
        seconds = (self.clock() - started) / (done - first) * (total - done)
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"
