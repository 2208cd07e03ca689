"""The help of all programs in 80 columns: nothing is cut, and each command says in one line what it does."""

import importlib
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

PROGRAMS = ("client", "server", "training", "netem")


def helps(program: str) -> Iterator[tuple[str, str]]:
    """The help of the program and of each of its commands, by what was asked."""
    app = importlib.import_module(f"{program}.cli").app
    asked: list[tuple[str, ...]] = [()]
    while asked:
        words = asked.pop()
        result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
        assert result.exit_code == 0
        yield " ".join(words), result.stdout
        command = typer.main.get_command(app)
        for word in words:
            assert isinstance(command, TyperGroup)
            command = command.commands[word]
        if isinstance(command, TyperGroup):
            asked += [(*words, name) for name in command.commands]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_command_or_option_is_cut(program: str) -> None:
    for asked, text in helps(program):
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80, asked
        assert "…" not in text, asked
        first = lines.index("Commands:") + 1 if "Commands:" in lines else len(lines)
        assert not [line for line in lines[first:] if line.endswith("...")], asked
