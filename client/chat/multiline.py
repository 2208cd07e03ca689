'''Messages of several lines: which typed lines belong to one message.

Pure. A backslash at the end of a line, or """ at the beginning, says that more is to come; so does a private span that
is open, no line of which may be taken for a message of its own.
'''

from dataclasses import dataclass

from client.private.spans import is_in_private

QUOTE, CONTINUATION = '"""', "\\"


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """What was quoted is `literal`: nothing in it is a command."""

    text: str
    literal: bool = False


def is_open(typed: str) -> bool:
    """Whether a quotation or a private span has begun that has not ended."""
    begun = typed.strip()
    return is_in_private(typed) or (begun.startswith(QUOTE) and not begun.removeprefix(QUOTE).endswith(QUOTE))


def as_message(typed: str) -> TypedMessage:
    text = typed.strip()
    if not text.startswith(QUOTE):
        return TypedMessage(text)
    return TypedMessage(text.removeprefix(QUOTE).removesuffix(QUOTE).strip("\n"), literal=True)
