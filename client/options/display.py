"""How answers are shown."""

from dataclasses import dataclass
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Markdown = Annotated[
    bool, typer.Option("--markdown/--no-markdown", help="Render the Markdown of a whole answer, on a terminal.")
]


@dataclass(frozen=True, slots=True)
class ScreenFlags:
    """How answers are shown; each field is an option."""

    markdown: Markdown = True
