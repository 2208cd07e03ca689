"""What a file keeps of a chat beside its exchanges."""

from types import SimpleNamespace

import pytest

from client.chat.chat import Chat
from client.chat.settings import ChatSettings
from client.chat.transcript import Exchange
from client.options.answers import ConversationFlags


class Notes(list):
    def note(self, text: str, dim: bool = False) -> None:
        self.append(text)

    def table(self, rows) -> None:
        self.extend(rows)


def begun(system: str = "", notes: Notes | None = None) -> tuple[Chat, SimpleNamespace]:
    """A chat with nobody, and its session."""
    notes = Notes() if notes is None else notes
    description = SimpleNamespace(model="m")
    client = SimpleNamespace(description=description, require_rule=lambda _: None, require_idle=lambda _: None)
    session = SimpleNamespace(exchanges=(), unverified=[], system=system, offline=None, is_private=False, is_held=False)
    session.replace_transcript = lambda exchanges: vars(session).update(exchanges=exchanges)
    settings = ChatSettings(conversation=ConversationFlags(system))
    return Chat(client, session, settings, notes, SimpleNamespace(), lambda _: None), session


@pytest.mark.parametrize("name", ["talk.json", "talk.md"])
def test_a_system_prompt_comes_back_with_its_conversation(tmp_path, name):
    first, session = begun("Be kind.")
    session.exchanges = (Exchange("a", "b"),)
    first.set("system Be brief.")
    first.save(str(tmp_path / name))
    other, loaded = begun("Be long.")
    other.load(str(tmp_path / name))
    assert (loaded.system, loaded.exchanges) == ("Be brief.", session.exchanges)
    other.save(str(tmp_path / f"again-{name}"))
    assert (tmp_path / f"again-{name}").read_text() == (tmp_path / name).read_text()


@pytest.mark.parametrize("name", ["talk.json", "talk.md"])
def test_a_conversation_without_one_leaves_it_as_it_is(tmp_path, name):
    begun()[0].save(str(tmp_path / name))
    other, loaded = begun("Be long.")
    other.load(str(tmp_path / name))
    assert loaded.system == "Be long."


def test_what_was_never_confirmed_is_told_when_it_is_loaded(tmp_path):
    begun()[0].save(str(tmp_path / "talk.json"))
    for unverified, says in [([], None), ([1], "the last answer was never"), ([1, 2], "the last 2 answers were never")]:
        notes = Notes()
        chat, session = begun(notes=notes)
        session.unverified = unverified
        chat.load(str(tmp_path / "talk.json"))
        assert len(notes) == 1 + bool(says)
        assert says is None or f"{says} confirmed; /online has that verified" in notes[-1]
