"""Which typed lines the history keeps."""

import stat

import pytest

from client.chat.history import KeptHistory
from client.private.spans import BEGIN, END


def kept(file) -> list[str]:
    """Newest first."""
    return list(KeptHistory(file).load_history_strings())


def test_messages_are_kept_for_later_chats_and_for_their_owner_alone(tmp_path):
    file = tmp_path / "state" / "chat_history"
    history = KeptHistory(file)
    history.append_string("one")
    history.append_string("two\nlines")
    assert kept(file) == ["two\nlines", "one"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path):
    file = tmp_path / "chat_history"
    file.touch(mode=0o644)
    KeptHistory(file).append_string("one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", [f"I am {BEGIN}Bo{END}", f"I am {BEGIN}Bo", f"Bo{END}", f"a\n{BEGIN}\nb"])
def test_what_is_marked_as_private_is_not_kept(tmp_path, text):
    history = KeptHistory(tmp_path / "chat_history")
    history.append_string("before")
    history.append_string(text)
    assert kept(tmp_path / "chat_history") == ["before"]
    assert history.get_strings()[-1] == text, "it can be recalled while the chat lasts"


def test_nothing_is_kept_of_a_conversation_that_is_private(tmp_path):
    history = KeptHistory(tmp_path / "chat_history")
    history.private = True
    history.append_string("what is my name?")
    assert kept(tmp_path / "chat_history") == []
    history.private = False
    history.append_string("hello")
    assert kept(tmp_path / "chat_history") == ["hello"]


def test_a_file_that_cannot_be_used_is_done_without(tmp_path):
    (tmp_path / "file").touch()
    for file in (tmp_path, tmp_path / "file" / "chat_history"):
        history = KeptHistory(file)
        assert list(history.load_history_strings()) == []
        history.append_string("one")
        assert history.get_strings() == ["one"]
