"""Tab completion of commands, settings and files. Knows the tables, and no conversation."""

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from client.chat.commands import COMMANDS, FILE
from client.chat.settings import SETTINGS


class CommandCompleter(Completer):
    def __init__(self) -> None:
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        name, space, argument = document.text_before_cursor.partition(" ")
        if not name.startswith("/") or "\n" in document.text:
            return
        if not space:
            yield from _beginning_with(name, {f"/{each.name}": each.help for each in COMMANDS.values()})
        elif name == "/set" and " " not in argument:
            yield from _beginning_with(argument, {each.name: each.help for each in SETTINGS.values()})
        elif (command := COMMANDS.get(name[1:])) and command.argument == FILE:
            yield from self._files.get_completions(Document(argument), complete_event)


def _beginning_with(typed: str, known: dict[str, str]) -> Iterable[Completion]:
    for name, meaning in known.items():
        if name.startswith(typed):
            yield Completion(name, start_position=-len(typed), display_meta=meaning)
