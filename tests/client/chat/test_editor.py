"""Keys on a terminal become messages."""

import asyncio

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from client.chat.editor import Editor
from client.chat.history import KeptHistory, history_file
from client.chat.multiline import TypedMessage

ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_R, UP = "\r", "\x1b\r", "\x03", "\x04", "\x12", "\x1b[A"


@pytest.fixture
def typing(monkeypatch, tmp_path):
    """What an editor makes of keys that arrive all at once, as from a user who types ahead."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()), asyncio.Runner() as runner:
        editor = Editor(runner.run)

        def type_(text: str, private: bool = False) -> TypedMessage | None:
            keys.send_text(text)
            return editor.ask("> ", private=private)

        type_.forget = editor.forget
        yield type_


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (f"hello{ENTER}", TypedMessage("hello")),
        (f"one{ALT_ENTER}two{ENTER}", TypedMessage("one\ntwo")),
        (f"one\\{ENTER}two{ENTER}", TypedMessage("one\ntwo")),
        (f'"""{ENTER}/quit{ENTER}"""{ENTER}', TypedMessage("/quit", literal=True)),
        ("\x1b[200~a\\\nb\x1b[201~" + ENTER, TypedMessage("a\\\nb")),
        (f"gone{CTRL_C}here{ENTER}", TypedMessage("here")),
        (f"{CTRL_C}a{CTRL_C}here{ENTER}", TypedMessage("here")),
        (f"gone{CTRL_C}{CTRL_C}", None),
        (CTRL_D, None),
    ],
)
def test_keys_become_a_message(typing, keys, message):
    assert typing(keys) == message


def test_earlier_messages_come_back_and_can_be_searched(typing):
    for message in ("first one", "second one", "third"):
        typing(message + ENTER)
    assert typing(UP + UP + ENTER) == TypedMessage("second one")
    assert typing(CTRL_R + "first" + ENTER + ENTER) == TypedMessage("first one")


def test_private_messages_are_not_kept_and_can_be_forgotten(typing):
    typing("hello" + ENTER)
    typing("my name?" + ENTER, private=True)
    assert list(KeptHistory(history_file()).load_history_strings()) == ["hello"]
    assert typing(UP + ENTER, private=True) == TypedMessage("my name?")
    typing.forget()
    assert typing(UP + ENTER) == TypedMessage("hello")
