"""The completions that are offered for a typed text."""

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from client.chat.commands import COMMANDS
from client.chat.completion import CommandCompleter
from client.chat.settings import SETTINGS


def offered(typed: str) -> list[str]:
    found = CommandCompleter().get_completions(Document(typed), CompleteEvent())
    return [typed[: len(typed) + each.start_position] + each.text for each in found]


@pytest.mark.parametrize(
    ("typed", "all_of"),
    [
        ("/", [f"/{name}" for name in COMMANDS]),
        ("/s", ["/set", "/system", "/stats", "/save"]),
        ("/set ", [f"/set {name}" for name in SETTINGS]),
        ("/set top", ["/set top-k", "/set top-p"]),
        ("/set top-k 4", []),
        ("/stats ", []),
        ("hello /s", []),
        ("hello", []),
        ("/s\nx", []),
    ],
)
def test_commands_and_settings_are_offered_where_they_may_stand(typed, all_of):
    assert offered(typed) == all_of


@pytest.mark.parametrize("command", ["save", "load"])
def test_files_are_offered_where_one_is_wanted(tmp_path, command):
    (tmp_path / "talk.json").touch()
    assert offered(f"/{command} {tmp_path}/ta") == [f"/{command} {tmp_path}/talk.json"]
