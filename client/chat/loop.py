"""One message after another, to a chat's commands or to the model, until the person leaves.

An error is shown and the conversation goes on; only misuse in a pipe, where no person can type it again, ends it.
"""

from client.chat.chat import Chat
from client.chat.commands import parse_command
from client.chat.display import Display
from client.chat.lines import Lines
from client.chat.multiline import TypedMessage
from client.private.spans import before_private
from client.text import given_text
from common.protocol.errors import MisuseError, OutriderError


def converse(chat: Chat, lines: Lines, display: Display, *, typed: bool) -> bool:
    """Whether every question was answered to its end; `typed` by a person. Raises MisuseError for misuse in a pipe."""
    is_well = True
    while not chat.is_over:
        message = lines.ask(chat.prompt, private=chat.is_private)
        if message is None:
            break
        try:
            _take(chat, message)
        except MisuseError as error:
            if not typed:
                raise
            display.note(str(error))
        except OutriderError as error:
            is_well = False
            display.note(str(error))
        except KeyboardInterrupt:
            continue  # an answer had just ended
        except Exception as error:
            if not typed:
                raise
            display.note(f"it failed unexpectedly: {type(error).__name__}: {error}")
    return is_well


def _take(chat: Chat, message: TypedMessage) -> None:
    given_text("that", message.text)
    call = parse_command(message)
    if call is not None:
        call.command.run(chat, call.argument)
    elif message.text:
        before_private(message.text)  # fails now if its spans cannot be
        chat.ask(message.text)
