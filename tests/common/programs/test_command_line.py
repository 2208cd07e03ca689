"""common.programs.command_line: whatever happens in a command, a person gets one sentence and an exit code."""

from importlib.metadata import version
from typing import Annotated

import pytest
import typer

from common.programs.command_line import Version, run
from common.programs.memory import TOO_LITTLE_MEMORY
from common.protocol.errors import MisuseError, OutriderError


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (MisuseError("give a prompt"), 2, "tool: give a prompt\n"),
        (OutriderError("the link is gone"), 1, "tool: the link is gone\n"),
        (OSError("the disk is full"), 1, "tool: the disk is full\n"),
        (ZeroDivisionError("by zero"), 1, "tool: it failed unexpectedly: ZeroDivisionError: by zero\n"),
        (
            OutriderError("the model 'a\x1b]0;t\x07\x9b2J\u202eb\nc' is odd"),
            1,
            "tool: the model 'a ]0;t  2J b c' is odd\n",
        ),
        (MisuseError("x" * 9000), 2, f"tool: {'x' * 2000}…\n"),
        (MemoryError(), 1, f"tool: {TOO_LITTLE_MEMORY}\n"),
        (KeyboardInterrupt(), 130, "tool: come back\n"),
    ],
)
def test_an_error_ends_in_one_sentence(error, code, sentence, monkeypatch, capsys):
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["tool"])
    with pytest.raises(SystemExit) as ended:
        run(app, "tool", interrupted="come back")
    assert ended.value.code == code
    assert capsys.readouterr().err == sentence


@pytest.fixture
def tool(monkeypatch, capsys):
    """Runs a program: exit code, and what it wrote."""
    app = typer.Typer()

    @app.callback()
    def tool(config: Annotated[str, typer.Option("--config")] = "", version: Version = False) -> None:
        pass

    @app.command()
    def sing() -> None:
        raise AssertionError("it was not asked to")

    def invoke(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tool", *arguments])
        with pytest.raises(SystemExit) as ended:
            run(app, "tool")
        written = capsys.readouterr()
        return int(ended.value.code or 0), written.out + written.err

    return invoke


def test_the_version_is_the_installed_one(tool):
    assert tool("--version") == (0, f"Outrider {version('outrider')}\n")


def test_what_belongs_before_the_command_is_told_so(tool):
    assert tool("sing", "--config", "x") == (2, "tool: --config goes before the command; see `tool sing --help`\n")
    assert "requires an argument" in tool("--config")[1]
    assert tool("sing", "--confg", "x")[1].startswith("tool: No such option")


def test_without_a_command_the_help_is_shown_and_nothing_more(monkeypatch, capsys):
    app = typer.Typer(no_args_is_help=True)
    app.command()(lambda: None)
    app.command("other")(lambda: None)
    monkeypatch.setattr("sys.argv", ["tool"])
    with pytest.raises(SystemExit) as ended:
        run(app, "tool")
    written = capsys.readouterr()
    assert (ended.value.code, written.err) == (2, "")
    assert "Usage:" in written.out


def test_a_question_keeps_its_mark(tool):
    assert tool("sign")[1] == "tool: No such command 'sign'. Did you mean 'sing'? see `tool --help`\n"
