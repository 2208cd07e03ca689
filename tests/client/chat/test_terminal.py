"""`outrider chat` as a user sees it: on a terminal, on a dumb one, and with the shipped models. On the dumb one it is
the installed program; on the other, a fork, which has imported already what it would take seconds over."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from client.chat.lines import LEAVING
from tests.client.chat.pty_session import PtySession, forked_on_terminal, on_terminal
from tests.daemon import outriderd
from tests.programs import command

CODE = "Write a Python function that finds the longest word in a list."
CTRL_C = "\x03"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with outriderd("--target", "demo", "--pace-pass", "20ms") as (_, address):
        yield address


@pytest.fixture
def chat(server, tmp_path_factory, tmp_path):
    cache = tmp_path_factory.getbasetemp() / "demo-cache"
    where = ("--server", server, "--cache-dir", str(cache), "--threads", "1", "--layers", "0")

    def begin(*settings: str, program: str = "outrider", run=forked_on_terminal, **environment: str):
        return run(program, "chat", *where, *settings, XDG_STATE_HOME=str(tmp_path), **environment)

    return begin


def stop(session: PtySession) -> None:
    """Sends Ctrl-C in mid-answer, or at the prompt if the answer is over already."""
    session.until(lambda lines: len(lines[-1]) > 3 and lines[-1][0].isalpha())
    session.type(CTRL_C)
    session.until(lambda lines: lines[-1].startswith(">"))


def test_a_conversation_on_a_terminal(chat, tmp_path):
    with chat() as session:
        session.until(lambda lines: lines[-1] == ">")
        assert b"loading ..." in session.written
        assert "loading ..." not in session.text
        assert "/help says what can be typed" in session.text

        answer = session.ask(f"{CODE}\r")
        assert "def longest_word" in answer
        assert "```" not in answer, "it is rendered"
        assert answer.count("def longest_word") == 1, "in place of what was streamed"
        assert "tokens/s" in answer
        assert session.text.count("/help says") == 1, "nothing above it is lost"

        session.type("/st")
        session.until(lambda _: "tokens, speed and bytes" in session.screen)  # offered below
        session.type("\t")
        session.until(lambda lines: "/stats" in lines[-1])
        assert "accept length" in session.ask("\r")
        assert "did you mean /stats?" in session.ask("/stast\r")
        assert "coupled (by the temperature)" in session.ask("/set temperature 0.8\r")
        session.ask("/set temperature 0\r")
        session.ask("/set markdown off\r")
        assert "```" in session.ask("/retry\r")

        session.type("Tell me a story\\\rof a dragon.\r")
        stop(session)
        assert "stopped; what has come of the answer stays" in session.text or LEAVING in session.text

        assert "offline until /online" in session.ask("/offline\r", "offline>")
        assert "/online has the server verify" in session.ask("Who are you?\r", "offline>")
        assert "drafted tokens were confirmed" in session.ask("/online\r")

        assert "private: " in session.ask("My name is [[private]]Bo[[/private]].\r", "private>")
        session.ask("/new\r")
        session.type(CTRL_C)
        session.until(lambda lines: LEAVING in lines[-1])
        session.type(CTRL_C)
        assert session.end() == 0
    kept = (tmp_path / "outrider" / "chat_history").read_text()
    assert "dragon" in kept
    assert "Bo" not in kept


def test_a_dumb_terminal_sees_no_escape_codes(chat):
    with chat("--draft", "lookup", program=command("outrider"), run=on_terminal, TERM="dumb") as session:
        session.until(lambda lines: lines[-1] == ">")
        assert "Outrider" in session.ask("Who are you?\r")
        session.ask("hello [[private]] there\r", "...")  # a span that is open takes the lines that follow
        assert LEAVING in session.ask(CTRL_C)
        session.type("Tell me a story.\r")
        stop(session)
        session.type("/quit\r")
        assert session.end() == 0
        assert b"\x1b" not in session.written


def test_plain_lines_need_no_editor():
    script = "import sys, client.commands.chat; sys.exit('prompt_toolkit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
