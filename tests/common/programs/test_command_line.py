"""common.programs.command_line: whatever happens in a command, the user gets one sentence and an exit code."""

from importlib.metadata import entry_points, version
from typing import Annotated

import pytest
import typer

from common.memory import TOO_LITTLE_MEMORY
from common.programs.command_line import Version, run
from common.programs.interruption import Interruption
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
        (Interruption("it is half done"), 130, "tool: it is half done\n"),
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


def failing(error: BaseException, monkeypatch, capsys, debug: str | None) -> tuple[int, str]:
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["tool"])
    if debug is None:
        monkeypatch.delenv("OUTRIDER_DEBUG", raising=False)
    else:
        monkeypatch.setenv("OUTRIDER_DEBUG", debug)
    with pytest.raises(SystemExit) as ended:
        run(app, "tool")
    return ended.value.code, capsys.readouterr().err


FAILURES = {
    "misuse": (MisuseError("give a prompt"), 2, "tool: give a prompt\n"),
    "failure": (OutriderError("the link is gone"), 1, "tool: the link is gone\n"),
    "system": (OSError("the disk is full"), 1, "tool: the disk is full\n"),
    "unforeseen": (ZeroDivisionError("by zero"), 1, "tool: it failed unexpectedly: ZeroDivisionError: by zero\n"),
    "memory": (MemoryError(), 1, f"tool: {TOO_LITTLE_MEMORY}\n"),
}


@pytest.mark.parametrize(("error", "code", "sentence"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("debug", ["1", "true", " ON "])
def test_debugging_shows_the_traceback_before_the_sentence(error, code, sentence, debug, monkeypatch, capsys):
    ended, said = failing(error, monkeypatch, capsys, debug)
    assert ended == code
    assert said.startswith("Traceback (most recent call last):\n")
    assert "raise error" in said
    assert said.endswith(f"\n{sentence}")


@pytest.mark.parametrize(("error", "code", "sentence"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("debug", [None, "", "0", "false", "off"])
def test_otherwise_there_is_no_traceback(error, code, sentence, debug, monkeypatch, capsys):
    assert failing(error, monkeypatch, capsys, debug) == (code, sentence)


def test_debugging_shows_what_caused_an_error(monkeypatch, capsys):
    error = OutriderError("the link is gone")
    error.__cause__ = KeyError("below")
    _, said = failing(error, monkeypatch, capsys, "1")
    assert "KeyError: 'below'" in said


@pytest.mark.parametrize("debug", ["maybe", "2", "1.0"])
def test_a_word_that_is_neither_is_misuse(debug, monkeypatch, capsys):
    code, said = failing(AssertionError("it ran"), monkeypatch, capsys, debug)
    assert code == 2
    assert said == f"tool: OUTRIDER_DEBUG is 1 to show tracebacks or 0 not to, not '{debug}'\n"


@pytest.mark.parametrize("name", ["outrider", "outriderd", "outrider-lab", "outrider-train"])
def test_every_program_shows_tracebacks(name, tmp_path, monkeypatch, capsys):
    (program,) = (each.load() for each in entry_points(group="console_scripts", name=name))
    missing = {
        "outrider": ["run", "Hi", "--server", "nonsense"],
        "outriderd": ["serve", "--target", "/nowhere"],
        "outrider-lab": ["run", "nonsense", "--out", "x"],
        "outrider-train": ["moa", "--target", "/nowhere", "--data", "/nowhere", "--out", "x"],
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [name, *missing[name]])
    said = {}
    for debug in ("1", "0", "maybe"):
        monkeypatch.setenv("OUTRIDER_DEBUG", debug)
        with pytest.raises(SystemExit):
            program()
        said[debug] = capsys.readouterr().err
    assert "Traceback (most recent call last):" in said["1"]
    assert said["1"].splitlines()[-1] == said["0"].splitlines()[-1]
    assert "Traceback" not in said["0"]
    assert said["maybe"].count("\n") == 1
    assert "not 'maybe'" in said["maybe"]


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
