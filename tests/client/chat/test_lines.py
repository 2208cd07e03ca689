"""Lines from a pipe and a dumb terminal become messages."""

import io
import sys

import pytest
from rich.console import Console

from client.chat.lines import PlainLines
from client.chat.multiline import TypedMessage


def lines(monkeypatch, typed: bytes, console: Console | None = None) -> PlainLines:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
    return PlainLines(console)


def all_of(lines: PlainLines) -> list[TypedMessage]:
    return list(iter(lambda: lines.ask("> ", private=False), None))


@pytest.mark.parametrize(
    ("typed", "messages"),
    [
        (b"a\nb\n", [TypedMessage("a"), TypedMessage("b")]),
        (b"a\n\nb", [TypedMessage("a"), TypedMessage(""), TypedMessage("b")]),
        (b"a\\\nb\\\nc\nd\n", [TypedMessage("a\nb\nc"), TypedMessage("d")]),
        (b'"""\na\\\n\n  b\n"""\nc\n', [TypedMessage("a\\\n\n  b", literal=True), TypedMessage("c")]),
        (b'"""\na\n', [TypedMessage("a", literal=True)]),
        (b"a\\", [TypedMessage("a\\")]),
        (b"a [[private]]b\nc[[/private]]\nd\n", [TypedMessage("a [[private]]b\nc[[/private]]"), TypedMessage("d")]),
        (b"", []),
    ],
)
def test_lines_become_messages(monkeypatch, typed, messages):
    assert all_of(lines(monkeypatch, typed)) == messages


def test_bytes_that_are_no_text_spoil_their_own_message_alone(monkeypatch):
    first, bad, last = all_of(lines(monkeypatch, b"a\ncaf\xe9\nb\n"))
    assert (first.text, last.text) == ("a", "b")
    with pytest.raises(UnicodeError):
        bad.text.encode()


def test_only_who_types_is_prompted_and_without_escape_codes(monkeypatch, capsys):
    all_of(lines(monkeypatch, b"a\\\nb\n"))
    assert capsys.readouterr().out == ""
    shown = io.StringIO()
    all_of(lines(monkeypatch, b"a\\\nb\n", Console(file=shown, force_terminal=True)))
    assert shown.getvalue() == "> ... > \n"


class Interrupting:
    """A terminal on which Ctrl-C is pressed where a line is None."""

    def __init__(self, *lines: str | None):
        self._lines = iter(lines)

    def readline(self) -> str:
        line = next(self._lines)
        if line is None:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    ("pressed", "message"),
    [((None, "a\n"), TypedMessage("a")), (("b\\\n", None, "a\n"), TypedMessage("a")), ((None, None, "a\n"), None)],
)
def test_ctrl_c_clears_what_was_begun_and_twice_leaves(monkeypatch, pressed, message):
    monkeypatch.setattr(sys, "stdin", Interrupting(*pressed))
    shown = io.StringIO()
    assert PlainLines(Console(file=shown)).ask("> ", private=False) == message
    assert "Ctrl-C again leaves" in shown.getvalue()


def test_ctrl_c_before_each_of_two_messages_does_not_leave(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Interrupting(None, "a\n", None, "b\n"))
    typed = PlainLines(None)
    assert [typed.ask("> ", private=False), typed.ask("> ", private=False)] == [TypedMessage("a"), TypedMessage("b")]
