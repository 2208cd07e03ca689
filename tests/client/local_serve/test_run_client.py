"""client.local_serve.run_client: against a fake `outrider serve` that sends what the test says."""

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from client.errors import BrokenOffError
from client.local_serve import request, run_client
from client.local_serve.chat_client import chat_client_of_serve
from client.local_serve.messages import (
    Accepted,
    AnswerFailed,
    AnswerFinished,
    Declined,
    Message,
    Note,
    Redraw,
    ServeRequest,
    Text,
    TextEnd,
    from_line,
    to_line,
)
from client.local_serve.request import RequestOptions
from client.local_serve.run_client import answer_by_serve
from client.local_serve.running import Running, announce, own_version, prepare_socket
from client.options.answers import AnswerFlags
from client.options.connection import Credentials
from client.options.outages import OfflineFlags
from client.terminal.render import LiveRenderer
from client.text import Question
from common.protocol.errors import MisuseError, OutriderError
from tests.client.emulated_terminal import Terminal

SERVER = "127.0.0.1:7070"
OUTCOME = {"result": {"text": "Hello", "token_ids": [1]}, "stats": ["1 token"], "notes": ["a note"], "failure": ""}
WHOLE = [Accepted(), Text("Hel", ""), Text("lo", ""), TextEnd("")]


class Fake:
    """Answers each connection with lines, and closes it then."""

    def __init__(self, cache: Path, lines: list[bytes], version: str = "", server: str = SERVER):
        self.requests: list[ServeRequest] = []
        path = prepare_socket(cache, os.getpid())
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        path.chmod(0o600)
        self._listening.listen()
        self._lines = lines
        announce(cache, Running(os.getpid(), version or own_version(), server, str(path)))
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                line = connection.makefile("rb").readline()
                if line:
                    self.requests.append(from_line(line))
                    connection.sendall(b"".join(self._lines))


class Silent:
    """Accepts a request, and then sends nothing."""

    def __init__(self, cache: Path):
        path = prepare_socket(cache, os.getpid())
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        path.chmod(0o600)
        self._listening.listen()
        announce(cache, Running(os.getpid(), own_version(), SERVER, str(path)))
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        connection, _ = self._listening.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline()
            connection.sendall(to_line(Accepted()))
            lines.readline()


@pytest.fixture
def fake(tmp_path) -> Callable[..., Fake]:
    def make(*sent: Message | bytes, **about: str) -> Fake:
        lines = [each if isinstance(each, bytes) else to_line(each) for each in sent]
        return Fake(tmp_path, lines, **about)

    return make


def asked(cache: Path, *, as_json: bool = False, server: str = SERVER) -> tuple[Declined | None, list[str]]:
    """Why it was not answered, and what was called."""
    calls: list[str] = []
    choice = {"draft": None, "device": "cpu", "dtype": "float32", "threads": 0, "layers": None, "state": None}
    options = RequestOptions(Credentials(token="secret"), AnswerFlags(stop=["x"]), OfflineFlags(), choice, 0.0)
    show = lambda: calls.append("loaded")  # noqa: E731
    return answer_by_serve(cache, server, Question("Hi"), options, show, as_json=as_json), calls


def test_an_answer_is_shown_as_it_comes(tmp_path, fake, capsys) -> None:
    running = fake(*WHOLE, AnswerFinished(OUTCOME))
    assert asked(tmp_path) == (None, ["loaded"])
    assert capsys.readouterr() == ("Hello\n", "1 token\na note\n")
    (request,) = running.requests
    assert request.version == own_version()
    assert (request.server, request.question["prompt"], request.is_live) == (SERVER, "Hi", False)
    assert request.credentials["values"]["token"] == "secret"
    assert request.answer["stop"] == ["x"]


def test_on_a_terminal_provisional_text_comes_and_goes(tmp_path, fake, monkeypatch) -> None:
    to = Console(file=io.StringIO(), force_terminal=True, width=40, height=10, _environ={"TERM": "xterm"})
    monkeypatch.setattr("client.terminal.render.renderer_for", lambda *_: LiveRenderer(to, lambda: 0.0))
    drafted = [Text("", "H"), Text("", "He"), Redraw("Hex"), Text("Hello", "x"), Text("", "xy")]
    fake(Accepted(), *drafted, TextEnd(""), AnswerFinished(OUTCOME))
    assert asked(tmp_path)[0] is None
    terminal = Terminal(40, 10)
    terminal.write(to.file.getvalue().replace("\n", "\r\n"))
    assert terminal.text.strip() == "Hello"


def test_a_program_gets_one_object_and_no_statistics(tmp_path, fake, capsys) -> None:
    fake(Accepted(), AnswerFinished(OUTCOME))
    assert asked(tmp_path, as_json=True)[0] is None
    out, err = capsys.readouterr()
    assert json.loads(out) == OUTCOME["result"]
    assert err == "a note\n"


def test_what_is_worth_knowing_before_the_answer_is_shown(tmp_path, fake, capsys) -> None:
    fake(WHOLE[0], Note("the server cannot be reached"), *WHOLE[1:], AnswerFinished(OUTCOME))
    assert asked(tmp_path)[0] is None
    assert capsys.readouterr().err.startswith("the server cannot be reached\n")


@pytest.mark.parametrize("about", ["version", "server"])
def test_another_version_or_server_is_the_reason_and_nothing_is_requested(tmp_path, fake, capsys, about) -> None:
    running = fake(*WHOLE, **{about: "another:1"})
    declined, _ = asked(tmp_path)
    assert declined is not None
    assert "another:1" in declined.reason
    assert capsys.readouterr() == ("", ""), "the draft is not loaded yet"
    assert running.requests == []


def test_one_that_asks_the_same_replicas_answers(tmp_path, fake) -> None:
    fake(*WHOLE, AnswerFinished(OUTCOME), server="127.0.0.1:7070,127.0.0.1:7071")
    assert asked(tmp_path, server="127.0.0.1:7070, 127.0.0.1:7071")[0] is None


@pytest.mark.parametrize("reason", ["", "it drafts otherwise"])
def test_a_request_that_is_declined_has_a_reason(tmp_path, fake, capsys, reason) -> None:
    fake(Declined(reason))
    assert asked(tmp_path) == (Declined(reason), [])
    assert capsys.readouterr() == ("", "")


def test_nobody_is_there_to_ask(tmp_path, capsys) -> None:
    assert asked(tmp_path) == (Declined(""), [])
    assert asked(tmp_path, server="no address") == (Declined(""), [])
    assert capsys.readouterr() == ("", "")


def test_a_folder_that_is_open_to_others_is_not_used(tmp_path, fake) -> None:
    running = fake(*WHOLE, AnswerFinished(OUTCOME))
    (tmp_path / "serving").chmod(0o755)
    declined, _ = asked(tmp_path)
    assert declined is not None
    assert declined.reason.endswith("is open to other users of this machine")
    assert running.requests == []


@pytest.mark.parametrize(
    "events",
    [[], [b"nonsense\n"], [b"[]\n"], [b'{"type": "Acc'], [b'{"type": "Text"}\n'], WHOLE[:1], [WHOLE[0], Text("", "")]],
)
def test_one_that_ends_before_anything_was_shown_leaves_it_to_us(tmp_path, fake, capsys, events) -> None:
    fake(*events)
    assert asked(tmp_path)[0] == Declined("")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("end", [[], [TextEnd("")]])
def test_one_that_ends_in_mid_answer_is_told_and_nothing_is_shown_twice(tmp_path, fake, capsys, end) -> None:
    fake(*WHOLE[:2], *end)
    with pytest.raises(BrokenOffError, match="the running `outrider serve` is gone; ask again"):
        asked(tmp_path)
    assert capsys.readouterr().out == "Hel\n"


def test_one_that_ends_before_the_object_leaves_it_to_us(tmp_path, fake, capsys) -> None:
    fake(WHOLE[0])
    assert asked(tmp_path, as_json=True)[0] == Declined("")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("is_misuse", "kind"), [(True, MisuseError), (False, OutriderError)])
def test_what_fails_there_fails_here(tmp_path, fake, is_misuse, kind) -> None:
    fake(WHOLE[0], AnswerFailed("the server is full", is_misuse))
    with pytest.raises(OutriderError, match="the server is full") as told:
        asked(tmp_path)
    assert type(told.value) is kind


def test_an_answer_that_broke_off_is_told_after_it_was_shown(tmp_path, fake, capsys) -> None:
    fake(*WHOLE, AnswerFinished({**OUTCOME, "failure": "the session ended"}))
    with pytest.raises(BrokenOffError, match="the session ended"):
        asked(tmp_path)
    assert capsys.readouterr() == ("Hello\n", "1 token\na note\n")


def test_ctrl_c_asks_for_the_end_of_the_answer(tmp_path, monkeypatch, capsys) -> None:
    path = prepare_socket(tmp_path, os.getpid())
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen()
    announce(tmp_path, Running(os.getpid(), own_version(), SERVER, str(path)))

    def work() -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline()
            connection.sendall(to_line(Accepted()) + to_line(Text("Hel", "")))
            later.append(lines.readline())
            connection.sendall(to_line(Text("l", "")) + to_line(TextEnd("")))

    later: list[bytes] = []
    working = threading.Thread(target=work, daemon=True)
    working.start()
    show, shown = run_client._AnswerDisplay._show, []

    def interrupted(self, event):
        shown.append(event)
        done = show(self, event)
        if len(shown) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(run_client._AnswerDisplay, "_show", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asked(tmp_path)
    working.join(10)
    assert not working.is_alive()
    listening.close()
    assert later == [b""], "the question's end of the connection was not closed"
    assert capsys.readouterr().out == "Hell\n"


def test_asking_imports_neither_torch_nor_grpc() -> None:
    code = (
        "import sys\nimport client.cli, client.local_serve.run_client\n"
        "import client.terminal.render, client.terminal.outcome\n"
        "heavy = ('torch', 'transformers', 'grpc', 'numpy', 'tokenizers', 'jinja2', 'asyncio.base_events')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_chat_waits_for_a_bounded_time_for_one_that_accepts_and_says_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(request, "_ACCEPT_S", 0.2)
    Silent(tmp_path)
    options = RequestOptions(Credentials(), AnswerFlags(), OfflineFlags(), {})
    assert chat_client_of_serve(tmp_path, SERVER, options, lambda: pytest.fail("it loads")) == Declined("")
