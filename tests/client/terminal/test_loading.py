"""client.terminal.loading: a notice on a terminal until something else is shown, and nothing anywhere else."""

import io

import pytest

from client.terminal.loading import loading

ERASED = "loading ...\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch, kind: str = "xterm") -> Terminal:
    """Not a fixture: stderr is pytest's own again when a test begins."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", kind)
    return terminal


def test_it_stands_until_something_is_shown_and_is_erased_once(monkeypatch):
    stderr = on_terminal(monkeypatch)
    with loading() as loaded:
        assert stderr.getvalue() == "loading ..."
        loaded()
        assert stderr.getvalue() == ERASED
        loaded()
    assert stderr.getvalue() == ERASED


def test_it_is_erased_before_an_error_is_told(monkeypatch):
    stderr = on_terminal(monkeypatch)
    with pytest.raises(OSError, match="no"), loading():
        raise OSError("no")
    assert stderr.getvalue() == ERASED


def test_a_dumb_terminal_sees_nothing(monkeypatch):
    stderr = on_terminal(monkeypatch, "dumb")
    with loading() as loaded:
        loaded()
    assert stderr.getvalue() == ""


def test_a_pipe_sees_nothing(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with loading():
        pass
    assert pipe.getvalue() == ""
