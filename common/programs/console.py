"""Rich's console for programs that show what others chose: its styles and movements are its own, and all text in it is
plain. No module makes another one."""

from collections.abc import Iterable
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from common.programs.plain_stream import drawable
from common.protocol.plain import printable


class PlainConsole(Console):
    # While a bar is drawn, rich puts a stream of its own before the guarded one and looks behind that one alone.
    @property
    def file(self) -> IO[str]:
        return drawable(cast(TextIO, super().file))

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
