"""Private text never leaves the client, whatever commands are given: checked on the bytes sent to a real server."""

import io
import json
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from client.private.spans import BEGIN, END
from common.protocol.messages import Extend, Open
from tests.client.private.test_spans_wire import STATE_ALONE, check_silence
from tests.client.test_cli import outrider
from tests.client.wiretap import Wiretap, generated

SECRET, LATER, STOP = "kR4vTq9ZpLw2XyBd7NhS", "mJ8sGf3HcUa6QeVi0OtK", "wB5nDy1PzRx7LkMj9CoE"
ASKED = f"sum up {BEGIN}{SECRET}{END}, will you?"


@pytest.fixture
def said(monkeypatch, capsys, tmp_path, tap, cache):
    """Types lines into a chat; returns its stderr."""
    monkeypatch.chdir(tmp_path)

    def say(*lines: str) -> str:
        typed = "".join(f"{line}\n" for line in lines)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode()), encoding="utf-8"))
        where = ["--server", tap.address, "--cache-dir", str(cache), "--dtype", "float64"]
        code, _, err = outrider(monkeypatch, capsys, "chat", *where, "--max-new-tokens", "6")
        assert code == 0, err
        return err

    return say


def check_secrets(tap: Wiretap, cache: Path, *secrets: str) -> None:
    check_silence(tap, AutoTokenizer.from_pretrained(next(cache.glob("**/tokenizer"))), *secrets)


def answered_at_home(err: str) -> int:
    return err.count("the answer is the draft model's own")


def test_no_command_makes_a_private_conversation_speak(said, tap, cache):
    err = said(
        "hello",
        ASKED,
        "/retry",
        f"and {LATER}?",
        f"/set stop {STOP}",
        "/set temperature 0.9",
        "/retry",
        "/offline",
        "/online",
        "/stats",
        "again",
    )
    assert answered_at_home(err) == 5
    assert err.count("this conversation is private") == 2
    (stream,) = generated(tap)
    (extend,) = [each for each in stream.messages if isinstance(each, Extend)]
    assert extend.settings == STATE_ALONE
    check_secrets(tap, cache, SECRET, LATER, STOP)


def test_a_private_conversation_that_was_saved_stays_private_when_it_is_loaded(said, tap, cache, tmp_path):
    said("hello", ASKED, f"and {LATER}?", "/save talk.json", "/save talk.md")
    saved = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert [each.get("private", False) for each in saved] == [False, False, True, True, True, True]
    for file in ("talk.json", "talk.md"):
        assert answered_at_home(said(f"/load {file}", "what was it?", "/retry", "/set seed 1", "so?")) == 3
        assert answered_at_home(said(f"/load {file}", "/retry")) == 1
    check_secrets(tap, cache, SECRET, LATER)
    opened = [stream.messages[0] for stream in generated(tap)[1:]]
    assert len(opened) == 4
    assert all(isinstance(each, Open) and each.settings == STATE_ALONE for each in opened)


def test_what_was_said_in_private_is_so_in_its_file_without_the_question_that_made_it_so(said, tap, cache, tmp_path):
    """A conversation that is private because of text that is no longer part of it."""
    (tmp_path / "open.json").write_text('{"messages": []}')
    said(ASKED, "/load open.json", f"my name is {LATER}", "/save later.json")
    assert answered_at_home(said("/load later.json", "what is it?")) == 1
    check_secrets(tap, cache, SECRET, LATER)


def test_loading_does_not_end_privacy_and_a_new_conversation_does_without_what_was_set(said, tap, cache, tmp_path):
    (tmp_path / "open.json").write_text('{"messages": []}')
    err = said(ASKED, f"/set stop {STOP}", "/load open.json", f"and {LATER}?", "/new", "hello")
    assert answered_at_home(err) == 2
    assert "set back" in err
    assert len(generated(tap)) == 2
    assert generated(tap)[1].messages[0].settings.stop == ()
    check_secrets(tap, cache, SECRET, LATER, STOP)


def test_a_system_prompt_that_was_set_in_private_is_not_in_the_file_and_one_that_was_loaded_is(
    said, tap, cache, tmp_path
):
    """Also of a conversation that is private because of text that is no longer part of it."""
    (tmp_path / "open.json").write_text('{"messages": [], "system": "Be kind."}')
    said("/system Be brief.", ASKED, f"/system {LATER}", "/save talk.json", "/load open.json", "/save later.json")
    saved = [json.loads((tmp_path / name).read_text()) for name in ("talk.json", "later.json")]
    assert [each["system"] for each in saved] == ["Be brief.", "Be kind."]
    assert answered_at_home(said("/load later.json", "hello")) == 0
    check_secrets(tap, cache, SECRET, LATER)


def test_what_was_private_offline_is_not_judged_when_back(said, tap, cache):
    err = said("/offline", "hello", ASKED, "/online", "so?")
    assert answered_at_home(err) == 2
    assert [stream for stream in generated(tap) if stream.messages] == []
    check_secrets(tap, cache, SECRET)


def test_a_file_that_is_loaded_before_anything_was_asked_is_private_at_once(said, tap, cache, tmp_path):
    said(ASKED, "/save talk.json")
    err = said("hello", "/load talk.json", "/online", f"/set stop {STOP}", "/new", "hello")
    assert err.count("this conversation is private") == 2
    assert "set back" in err
    check_secrets(tap, cache, SECRET, STOP)


PRIVATE_TALK = {
    "messages": [{"role": "user", "content": f"{BEGIN}{SECRET}{END}"}, {"role": "assistant", "content": "ok"}]
}


def test_what_is_set_after_a_private_file_stays_here_whatever_is_loaded_next(said, tap, cache, tmp_path):
    (tmp_path / "private.json").write_text(json.dumps(PRIVATE_TALK))
    (tmp_path / "open.json").write_text('{"messages": [{"role": "user", "content": "hello"}]}')
    prepare = "/load private.json", f"/system {LATER}", f"/set stop {STOP}"
    for also in ((), ("/load open.json",)):
        assert answered_at_home(said(*prepare, *also, "and?")) == 1
    assert answered_at_home(said(*prepare, "/load open.json", "/new", "hello")) == 0
    check_secrets(tap, cache, SECRET, LATER, STOP)
