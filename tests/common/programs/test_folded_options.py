"""Options as dataclasses: single flags on the command line, folded where a command reads them."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import typer
from typer.testing import CliRunner

from common.programs.folded_options import with_folded_options


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width")] = 1
    names: Annotated[list[str] | None, typer.Option("--name")] = None


@dataclass(frozen=True)
class Place:
    far: Annotated[bool, typer.Option("--far")] = False


def test_options_unfold_where_they_are_read_and_fold_where_they_are_used():
    seen = []
    app = typer.Typer()

    @app.command()
    @with_folded_options
    def build(what: str, *, size: Size, place: Place) -> None:
        seen.append((what, size, place))

    assert list(signature(build).parameters) == ["what", "width", "names", "far"]
    for arguments in (["hut"], ["hall", "--far", "--name", "a", "--width", "9", "--name", "b"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    (what, size, place), (other, large, distant) = seen
    assert (what, size.width, list(size.names or ()), place) == ("hut", 1, [], Place())
    assert (other, large, distant) == ("hall", Size(9, ["a", "b"]), Place(far=True))
