"""The commands as a user types them, with a server that is absent, dies in mid-answer, or comes back."""

import json
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

from client.one_answer import prompt_of
from client.terminal.render import AnswerView
from tests.client.test_cli import outrider
from tests.client.test_end_to_end import PROMPT
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.programs import Program, finished

TOKENS = 60


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A target, a draft that is the target itself, and another target of the same name."""
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "independent", "llama", seed=1)
    make_checkpoint(folder / "another", "llama", seed=3)
    return folder


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def serve(models, port):
    """Starts a server on the same port each time."""
    drafts = ("--draft", str(models / "independent"), "--dtype", "float64", "--pace-pass", "40ms")

    def begin(target: str = "target"):
        return outriderd("--target", str(models / target), *drafts, "--listen", f"127.0.0.1:{port}")

    return begin


def asking(port: int, cache: Path, *settings: str) -> list[str]:
    where = ["--server", f"127.0.0.1:{port}", "--cache-dir", str(cache), "--offline-wait", "60"]
    return ["run", PROMPT, *where, "--max-new-tokens", str(TOKENS), "--temperature", "1", "--seed", "7", *settings]


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A cache that has been used with the server once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def expected(serve, port, filled) -> list[int]:
    """The answer of an uninterrupted server, which has stopped by now; its bundle stays."""
    with serve():
        answered = finished("outrider", *asking(port, filled, "--json"))
    tokens = json.loads(answered)["token_ids"]
    assert len(set(tokens)) > TOKENS / 4
    return tokens


@pytest.fixture
def cache(expected, filled, tmp_path) -> Path:
    return shutil.copytree(filled, tmp_path / "cache")


@pytest.fixture
def begun() -> Iterator[partial]:
    with ExitStack() as stack:

        def begin(*arguments: str, **how) -> Program:
            program = Program("outrider", *arguments, **how)
            stack.callback(program.close)
            return program

        yield begin


def test_an_answer_that_begins_without_a_server_is_verified_when_one_appears(serve, port, cache, expected, begun):
    running = begun(*asking(port, cache, "--json"), stdout=PIPE, stderr=PIPE)
    said = running.stderr.readline()
    assert said == (
        f"the server at 127.0.0.1:{port} cannot be reached; "
        "the draft model 'independent' writes alone until it answers\n"
    )
    assert running.stderr.readline() == "waiting up to 60 s for the server\n"
    with serve():
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    result = json.loads(out)
    assert result["token_ids"] == expected
    assert (result["finish_reason"], result["provisional_token_ids"]) == ("length", [])
    assert result["stats"]["passes"] < TOKENS, "what was written alone was judged in one pass"
    assert result["link"][-1]["state"] == "online"


@pytest.mark.parametrize(
    "settings", [(), ("--draft", "lookup"), ("--policy", "cloud")], ids=["draft", "lookup", "cloud"]
)
def test_a_server_killed_in_mid_answer_and_restarted_changes_no_token(
    monkeypatch, capsys, serve, port, cache, expected, settings
):
    with ExitStack() as stack:
        process, _ = stack.enter_context(serve())

        class Killing(AnswerView):
            def __call__(self, committed, provisional):
                if committed and process.poll() is None:
                    process.kill()
                    process.wait()
                    stack.enter_context(serve())

        monkeypatch.setattr("client.one_answer.AnswerView", Killing)
        code, out, err = outrider(monkeypatch, capsys, *asking(port, cache, "--json", *settings))
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["token_ids"] == expected
    assert result["stats"]["reconnects"] == 1
    assert [change["state"] for change in result["link"]] == ["online", "offline", "resuming", "online"]


def test_a_server_that_never_comes_back_leaves_what_the_draft_wrote(monkeypatch, capsys, port, cache):
    settings = ("--offline-limit", "5", "--offline-wait", "0.3")
    code, out, err = outrider(monkeypatch, capsys, *asking(port, cache, "--json", *settings))
    result = json.loads(out)
    assert code == 0
    assert (result["token_ids"], result["text"], result["finish_reason"]) == ([], "", "offline")
    assert len(result["provisional_token_ids"]) == 5
    assert result["provisional_text"]
    assert err.splitlines()[-1].startswith("the last 5 tokens are the draft model's own and never confirmed")
    _, shown, _ = outrider(monkeypatch, capsys, *asking(port, cache, *settings))
    # A character that is not whole is not shown.
    assert shown.rstrip("\n\ufffd") == result["provisional_text"].rstrip("\ufffd")


def test_a_wait_is_told_where_nothing_shows_that_the_server_is_away(monkeypatch, capsys, port, cache):
    asked = asking(port, cache, "--offline-limit", "5", "--offline-wait", "0.3")
    for more in ((), ("--json",)):
        _, _, err = outrider(monkeypatch, capsys, *asked, *more)
        assert err.splitlines()[1] == "waiting up to 1 s for the server"
    monkeypatch.setenv("FORCE_COLOR", "1")  # which is a terminal to rich
    monkeypatch.setenv("TERM", "xterm")
    _, out, err = outrider(monkeypatch, capsys, *asked)
    assert "[offline]" in out
    assert "waiting" not in err


def test_a_wait_for_a_server_that_was_reached_and_lost_before_the_first_token_is_told_too(
    monkeypatch, capsys, serve, port, cache
):
    with serve() as (process, _):

        def killing(*question):
            process.kill()
            process.wait()
            return prompt_of(*question)

        monkeypatch.setattr("client.commands.run.prompt_of", killing)
        asked = asking(port, cache, "--offline-limit", "5", "--offline-wait", "0.3", "--json")
        _, out, err = outrider(monkeypatch, capsys, *asked)
    assert json.loads(out)["finish_reason"] == "offline"
    waiting, unconfirmed = err.splitlines()
    assert waiting == "waiting up to 1 s for the server"
    assert "never confirmed" in unconfirmed


def test_an_answer_that_is_not_whole_says_so_where_nothing_was_written(monkeypatch, capsys, port, cache):
    settings = ("--policy", "cloud", "--offline-wait", "0.3")
    code, out, err = outrider(monkeypatch, capsys, *asking(port, cache, *settings))
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == "the answer is not whole: the server was out of reach"


def test_without_a_bundle_nothing_begins_without_its_server(monkeypatch, capsys, port, tmp_path):
    code, out, err = outrider(monkeypatch, capsys, *asking(port, tmp_path))
    assert (code, out) == (1, "")
    assert "cannot be reached" in err


def test_another_model_behind_the_address_is_told_and_what_was_shown_stays(serve, port, cache, begun):
    running = begun(*asking(port, cache, "--json"), stdout=PIPE, stderr=PIPE)
    running.stderr.readline()
    with serve("another"):
        out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "bundle belongs to another target; fetch this server's with `outrider pull`" in err
    result = json.loads(out)
    assert result["finish_reason"] == "error"
    assert result["provisional_token_ids"]


def test_ctrl_c_on_a_dead_link_ends_the_answer_and_keeps_the_chat(serve, port, cache, begun):
    arguments = ["--server", f"127.0.0.1:{port}", "--cache-dir", str(cache), "--max-new-tokens", "500"]
    with serve() as (server, _):
        chat = begun(
            "chat",
            *arguments,
            *("--offline-wait", "60", "--draft", "lookup"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        assert chat.stdout.read(8)
        server.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        chat.send_signal(signal.SIGINT)
        while chat.stdout.read(1) != "\n":
            assert chat.poll() is None, "the chat was left"
        assert time.monotonic() - began < 3.0
        server.send_signal(signal.SIGCONT)
        out, err = chat.communicate("and again\n/quit\n", timeout=60)
    assert (chat.returncode, err) == (0, "")
    assert out, "the next question was not answered"
