"""The commands of a chat as one table, and how they are distinguished from messages to the model.

`Chat` implements them. Knows no terminal.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from client.chat.multiline import TypedMessage
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.chat.chat import Chat

FILE = "FILE"
QUIT = "quit"

_LIKE_A_COMMAND = re.compile(r"/(\w+)(?:[ \t]+(.*))?")

Run = Callable[["Chat", str], None]


@dataclass(frozen=True, slots=True)
class Command:
    """`run` takes the argument, empty if there is none; one that is `required` is there."""

    name: str
    argument: str
    help: str
    run: Run
    required: bool = False


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    command: Command
    argument: str


def parse_command(message: TypedMessage) -> ParsedCommand | None:
    """What a message calls, None if it is meant for the model. Raises MisuseError for an unknown command, and for a
    wrong number of arguments."""
    match = None if message.literal else _LIKE_A_COMMAND.fullmatch(message.text)
    if match is None:
        return None
    name, argument = match[1].lower(), (match[2] or "").strip()
    command = COMMANDS.get(name)
    if command is None:
        close = did_you_mean(name, COMMANDS, "/{}")
        raise MisuseError(
            f'there is no command /{name}; {close or "/help lists them"} (a message between """ is no command)'
        )
    if argument and not command.argument:
        raise MisuseError(f"/{name} takes no argument")
    if command.required and not argument:
        raise MisuseError(f"say /{name} {command.argument}")
    return ParsedCommand(command, argument)


_TABLE = (
    Command("help", "", "what can be typed here", lambda chat, _: chat.show_help(_helped())),
    Command("set", "[NAME [VALUE]]", "settings; `default` takes one back", lambda chat, argument: chat.set(argument)),
    Command(
        "system",
        "[TEXT]",
        "the system prompt; `default` takes it back",
        lambda chat, text: chat.set(f"system {text}".rstrip()),
    ),
    Command(
        "retry", "", "ask the last question again; another answer if tokens are sampled", lambda chat, _: chat.retry()
    ),
    Command("stats", "", "tokens, speed and bytes", lambda chat, _: chat.show_stats()),
    Command("save", FILE, "the conversation, as .json or .md", lambda chat, file: chat.save(file), required=True),
    Command("load", FILE, "go on from a conversation in a file", lambda chat, file: chat.load(file), required=True),
    Command("offline", "", "go on without the server", lambda chat, _: chat.go_offline()),
    Command("online", "", "go back to the server, which verifies what was drafted", lambda chat, _: chat.go_online()),
    Command("new", "", "begin an empty conversation; the only way to end a private one", lambda chat, _: chat.new()),
    Command(QUIT, "", "leave, as Ctrl-D does", lambda chat, _: chat.quit()),
)
COMMANDS = {each.name: each for each in _TABLE}


def _helped() -> list[tuple[str, str]]:
    return [(f"/{each.name} {each.argument}", each.help) for each in COMMANDS.values()]
