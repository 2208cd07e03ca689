"""common.programs.plain_stream and console: only our own code writes control codes to a terminal."""

import ast
import io
import logging
import sys
import traceback
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from common.programs.console import PlainConsole
from common.programs.plain_stream import PlainStream, drawable, guard_streams

HOSTILE = "a\x1b]0;title\x07b\x1b[2J\x9b3mc\r\x08d\u202ee\u2066f\x00\u2028g"
COMMANDS = set("\x1b\x07\x9b\r\x08\u202e\u2066\x00\u2028")
PROJECT = Path(__file__).parents[3]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def guarded(monkeypatch) -> tuple[io.StringIO, Terminal]:
    """stdout is a file, stderr a terminal. Not a fixture: both are pytest's own again when a test begins."""
    out, err = io.StringIO(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    guard_streams()
    return out, err


def test_streams_that_a_shell_closed_are_there_and_lead_nowhere(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    guard_streams()
    print("nobody reads this")  # noqa: T201
    print("nor this", file=sys.stderr)  # noqa: T201
    assert not sys.stderr.isatty()
    assert sys.stdin.read() == ""
    for each in (sys.stdin, sys.stdout, drawable(sys.stderr)):
        each.close()


def test_what_libraries_say_is_plain(monkeypatch):
    err = guarded(monkeypatch)[1]
    print(HOSTILE, file=sys.stderr)  # noqa: T201
    logging.lastResort.handle(logging.makeLogRecord({"msg": HOSTILE, "levelno": logging.ERROR}))
    traceback.print_exception(ValueError(HOSTILE))
    sys.stderr.writelines([HOSTILE])
    said = err.getvalue()
    assert said.count("title") >= 4
    assert not COMMANDS & set(said)


def test_lines_and_the_letters_of_all_scripts_stay(monkeypatch):
    err = guarded(monkeypatch)[1]
    text = "क्‍ष می‌خواهم 👩‍👩‍👧 шум\n\tdeeper\n"
    sys.stderr.write(text)
    assert err.getvalue() == text.replace("\t", "    ")


def test_a_librarys_bar_begins_its_line_anew(monkeypatch):
    err = guarded(monkeypatch)[1]
    sys.stderr.write("\r50%\r")
    assert err.getvalue() == "\r50%"


def test_a_file_gets_what_was_said_as_it_is(monkeypatch):
    out = guarded(monkeypatch)[0]
    sys.stdout.write(HOSTILE)
    assert out.getvalue() == HOSTILE


def test_a_terminal_on_stdout_is_guarded_once_and_draws_where_it_is_asked_to(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    guard_streams()
    guarded = sys.stdout
    guard_streams()
    assert isinstance(guarded, PlainStream)
    assert sys.stdout is guarded
    assert drawable(sys.stdout) is terminal
    assert sys.stdout.isatty()
    sys.stdout.write(HOSTILE)
    assert not COMMANDS & set(terminal.getvalue())


def test_a_console_commands_the_terminal_and_what_it_shows_does_not(monkeypatch):
    err = guarded(monkeypatch)[1]
    console = PlainConsole(stderr=True, force_terminal=True, color_system="truecolor", width=200)
    console.print(HOSTILE, style="bold", markup=False)
    console.print(Text(HOSTILE))
    table = Table("head")
    table.add_row(Text(HOSTILE))
    console.print(table)
    shown = err.getvalue()
    assert "\x1b[1m" in shown
    assert shown.count("title") == 3
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert not (COMMANDS - {"\x1b"}) & set(shown)


def test_a_bar_is_drawn_and_its_description_is_plain(monkeypatch):
    err = guarded(monkeypatch)[1]
    console = PlainConsole(stderr=True, force_terminal=True, width=200)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as progress:
        progress.add_task(HOSTILE, total=1)
        progress.refresh()
        sys.stderr.write(HOSTILE + "\n")
    shown = err.getvalue()
    assert "\x1b[?25l" in shown
    assert "title" in shown
    assert "\x1b]" not in shown


def test_a_bars_own_commands_reach_the_terminal_while_it_is_drawn(monkeypatch):
    err = guarded(monkeypatch)[1]
    console = PlainConsole(stderr=True, force_terminal=True, color_system="standard", width=200)
    with Progress(TextColumn("{task.description}", style="bold"), console=console) as progress:
        progress.add_task("fetching", total=1)
        progress.refresh()
        progress.refresh()
        shown = err.getvalue()
    assert "\x1b[2K" in shown
    assert "\x1b[1mfetching" in shown
    assert "[2K" not in shown.replace("\x1b[2K", "")
    assert "[1m" not in shown.replace("\x1b[1m", "")


@pytest.mark.parametrize("package", ["common", "client", "server", "training", "netem"])
def test_no_module_makes_another_console(package):
    for file in (PROJECT / package).rglob("*.py"):
        if file == PROJECT / "common" / "programs" / "console.py":
            continue
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        names = {each.id for each in calls if isinstance(each, ast.Name)}
        assert not names & {"Console", "print"}, file
