"""Rich's console, with control characters removed from all text, which peers may have chosen; styles and cursor
movements come from rich alone. No module makes another console."""

from collections.abc import Iterable
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from common.programs.plain_stream import drawable
from common.protocol.plain import printable


class PlainConsole(Console):
    # While rich draws a bar, it wraps the guarded stream in its own and unwraps only that one.
    @property
    def file(self) -> IO[str]:
        return drawable(cast(TextIO, super().file))

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
