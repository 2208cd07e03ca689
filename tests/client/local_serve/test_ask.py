"""client.local_serve.ask: against a fake `outrider serve` that sends what the test says."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from client.errors import BrokenOffError
from client.local_serve import ask
from client.local_serve.ask import Options, answered
from client.local_serve.running import Running, announce, own_version, prepare_socket
from client.options import AnswerRequest, Credentials, OfflineRequest
from common.protocol.errors import MisuseError, OutriderError

SERVER = "127.0.0.1:7070"
OUTCOME = {"result": {"text": "Hello", "token_ids": [1]}, "stats": ["1 token"], "notes": ["a note"], "failure": ""}
WHOLE = [{"accepted": True}, {"write": "Hel", "provisional": ""}, {"write": "lo", "provisional": ""}, {"end": ""}]


class Fake:
    """Answers each connection with lines, and closes it then."""

    def __init__(self, cache: Path, lines: list[bytes], version: str = "", server: str = SERVER):
        self.asked: list[dict] = []
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
                    self.asked.append(json.loads(line))
                    connection.sendall(b"".join(self._lines))


@pytest.fixture
def fake(tmp_path) -> Callable[..., Fake]:
    def make(*events: dict | bytes, **about: str) -> Fake:
        lines = [event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n" for event in events]
        return Fake(tmp_path, lines, **about)

    return make


def asked(cache: Path, *, as_json: bool = False, server: str = SERVER) -> tuple[bool, list[str]]:
    """Whether it was answered, and what was called."""
    calls: list[str] = []
    choice = {"draft": None, "device": "cpu", "dtype": "float32", "threads": 0, "layers": None, "state": "int8"}
    options = Options(Credentials(token="secret"), AnswerRequest(stop=["x"]), OfflineRequest(), choice, 0.0)
    is_answered = answered(cache, server, "Hi", options, lambda: calls.append("loaded"), raw=False, as_json=as_json)
    return is_answered, calls


def test_an_answer_is_shown_as_it_comes(tmp_path, fake, capsys) -> None:
    running = fake(*WHOLE, OUTCOME)
    assert asked(tmp_path) == (True, ["loaded"])
    assert capsys.readouterr() == ("Hello\n", "1 token\na note\n")
    (question,) = running.asked
    assert question["version"] == own_version()
    assert (question["server"], question["prompt"], question["live"]) == (SERVER, "Hi", False)
    assert question["credentials"]["words"]["token"] == "secret"
    assert question["answer"]["stop"] == ["x"]


def test_a_program_gets_one_object_and_no_statistics(tmp_path, fake, capsys) -> None:
    fake({"accepted": True}, OUTCOME)
    assert asked(tmp_path, as_json=True)[0]
    out, err = capsys.readouterr()
    assert json.loads(out) == OUTCOME["result"]
    assert err == "a note\n"


def test_what_is_worth_knowing_before_the_answer_is_shown(tmp_path, fake, capsys) -> None:
    fake(WHOLE[0], {"note": "the server cannot be reached"}, *WHOLE[1:], OUTCOME)
    assert asked(tmp_path)[0]
    assert capsys.readouterr().err.startswith("the server cannot be reached\n")


@pytest.mark.parametrize("about", ["version", "server"])
def test_another_version_or_server_is_told_once_and_nothing_is_asked(tmp_path, fake, capsys, about) -> None:
    running = fake(*WHOLE, **{about: "another:1"})
    assert not asked(tmp_path)[0]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "another:1" in err
    assert "the draft is loaded here" in err
    assert running.asked == []


@pytest.mark.parametrize(("reason", "said"), [("", ""), ("it drafts otherwise", "it drafts otherwise; the draft")])
def test_a_question_that_is_declined_is_answered_here(tmp_path, fake, capsys, reason, said) -> None:
    fake({"declined": reason})
    assert not asked(tmp_path)[0]
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert err.count("\n") == bool(reason)


def test_nobody_is_there_to_ask(tmp_path, capsys) -> None:
    assert asked(tmp_path) == (False, [])
    assert asked(tmp_path, server="no address") == (False, [])
    assert capsys.readouterr() == ("", "")


def test_a_folder_that_is_open_to_others_is_told_once(tmp_path, fake, capsys) -> None:
    running = fake(*WHOLE, OUTCOME)
    (tmp_path / "serving").chmod(0o755)
    assert not asked(tmp_path)[0]
    err = capsys.readouterr().err
    assert "is open to other users of this machine; the draft is loaded here" in err
    assert err.count("\n") == 1
    assert running.asked == []


@pytest.mark.parametrize(
    "events",
    [[], [b"nonsense\n"], [b"[]\n"], [b'{"accepted": tr'], WHOLE[:1], [WHOLE[0], {"write": "", "provisional": ""}]],
)
def test_one_that_ends_before_anything_was_shown_leaves_it_to_us(tmp_path, fake, capsys, events) -> None:
    fake(*events)
    assert not asked(tmp_path)[0]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("end", [[], [{"end": ""}]])
def test_one_that_ends_in_mid_answer_is_told_and_nothing_is_shown_twice(tmp_path, fake, capsys, end) -> None:
    fake(*WHOLE[:2], *end)
    with pytest.raises(BrokenOffError, match="the running `outrider serve` is gone; ask again"):
        asked(tmp_path)
    assert capsys.readouterr().out == "Hel\n"


def test_one_that_ends_before_the_object_leaves_it_to_us(tmp_path, fake, capsys) -> None:
    fake(WHOLE[0])
    assert not asked(tmp_path, as_json=True)[0]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("is_misuse", "kind"), [(True, MisuseError), (False, OutriderError)])
def test_what_fails_there_fails_here(tmp_path, fake, is_misuse, kind) -> None:
    fake(WHOLE[0], {"failed": "the server is full", "misuse": is_misuse})
    with pytest.raises(OutriderError, match="the server is full") as told:
        asked(tmp_path)
    assert type(told.value) is kind


def test_an_answer_that_broke_off_is_told_after_it_was_shown(tmp_path, fake, capsys) -> None:
    fake(*WHOLE, {**OUTCOME, "failure": "the session ended"})
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
            connection.sendall(b'{"accepted": true}\n{"write": "Hel", "provisional": ""}\n')
            later.append(lines.readline())
            connection.sendall(b'{"write": "l", "provisional": ""}\n{"end": ""}\n')

    later: list[bytes] = []
    working = threading.Thread(target=work, daemon=True)
    working.start()
    show, shown = ask._Showing._show, []

    def interrupted(self, event):
        shown.append(event)
        done = show(self, event)
        if len(shown) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(ask._Showing, "_show", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asked(tmp_path)
    working.join(10)
    assert not working.is_alive()
    listening.close()
    assert later == [b""], "the question's end of the connection was not closed"
    assert capsys.readouterr().out == "Hell\n"


def test_asking_imports_neither_torch_nor_grpc() -> None:
    code = (
        "import sys\nimport client.cli, client.local_serve.ask, client.terminal.render, client.terminal.outcome\n"
        "heavy = ('torch', 'transformers', 'grpc', 'numpy', 'tokenizers', 'jinja2', 'asyncio.base_events')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
