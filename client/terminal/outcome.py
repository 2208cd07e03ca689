"""What `outrider run` prints after an answer. Knows consoles; it may not know what answered."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import typer

from client.errors import BrokenOffError

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is printed when the answer is over: `result` for a program, `stats` and `notes` for a person. A program gets
    the notes too, on stderr. `failure` is why the answer broke off, empty if it did not."""

    result: dict[str, Any]
    stats: tuple[str, ...]
    notes: tuple[str, ...]
    failure: str

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls(fields["result"], tuple(fields["stats"]), tuple(fields["notes"]), fields["failure"])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def show_outcome(outcome: Outcome, notes: "Console", *, as_json: bool) -> None:
    """One JSON object, or a few lines for a person. Raises BrokenOffError after that for an answer that broke off."""
    if as_json:
        typer.echo(json.dumps(outcome.result))
    for line in (*(() if as_json else outcome.stats), *outcome.notes):
        notes.print(line, markup=False)
    if outcome.failure:
        raise BrokenOffError(outcome.failure)
