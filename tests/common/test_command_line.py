"""common.command_line: whatever happens in a command, a person gets one sentence and an exit code."""

import pytest
import typer

from common.command_line import run
from common.protocol.errors import MisuseError, OutriderError


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (MisuseError("give a prompt"), 2, "tool: give a prompt\n"),
        (OutriderError("the link is gone"), 1, "tool: the link is gone\n"),
        (OSError("the disk is full"), 1, "tool: the disk is full\n"),
        (ZeroDivisionError("by zero"), 1, "tool: it failed unexpectedly: ZeroDivisionError: by zero\n"),
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
