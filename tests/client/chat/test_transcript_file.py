"""Saved conversations: readable by their owner only, never written over another file, and complete or absent."""

import errno
import stat
from pathlib import Path

import pytest

from client.chat.transcript import Exchange, SavedChat
from client.chat.transcript_file import file_of, load, save
from common.protocol.errors import MisuseError

SAID = SavedChat((Exchange("a", "b"), Exchange("c", "naïve 日本")), "Sei kurz, für 日本.")
BEFORE = SavedChat(SAID.exchanges[:1])


@pytest.mark.parametrize("name", ["chat.json", "chat.md", "chat.MD"])
def test_a_file_is_loaded_as_it_was_saved_and_is_its_owners_alone(tmp_path, name):
    file = tmp_path / name
    save(file, SAID, "demo", own=())
    assert load(file) == SAID
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_only_a_file_of_ones_own_is_written_over(tmp_path):
    file = tmp_path / "chat.json"
    save(file, BEFORE, "demo", own=())
    with pytest.raises(MisuseError, match="exists already"):
        save(file, SAID, "demo", own=())
    assert load(file) == BEFORE
    save(file, SAID, "demo", own={file.resolve()})
    assert load(file) == SAID


def test_misuse_is_told_with_the_name_of_the_file(tmp_path):
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "folder.json").mkdir()
    for name, says in [
        ("chat.txt", "ends in .json or .md"),
        ("absent.json", "absent.json cannot be read"),
        ("folder.json", "folder.json cannot be read"),
        ("bytes.json", "bytes.json is not valid text"),
        ("other.json", "other.json cannot be loaded: it is no conversation"),
    ]:
        with pytest.raises(MisuseError, match=says):
            load(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    for where in ("absent/chat.json", "notes.txt/chat.json", f"{'a' * 300}.json"):
        with pytest.raises(MisuseError, match="cannot be written"):
            save(tmp_path / where, SAID, "demo", own=())
    with pytest.raises(MisuseError, match="unknown user"):
        file_of("~nobody-of-that-name/chat.json")
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_may_not_be_entered_is_told(tmp_path, monkeypatch):
    def stat(file, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(Path, "stat", stat)  # the superuser may enter any
    with pytest.raises(MisuseError, match="cannot be written: Permission denied"):
        save(tmp_path / "chat.json", SAID, "demo", own=())


def test_a_page_of_other_notes_is_refused_and_so_never_written_over(tmp_path):
    page = tmp_path / "notes.md"
    page.write_text("What to buy.\n", encoding="utf-8")
    with pytest.raises(MisuseError, match="no conversation"):
        load(page)
    with pytest.raises(MisuseError, match="exists already"):
        save(page, BEFORE, "m", own=())
    assert page.read_text(encoding="utf-8") == "What to buy.\n"
