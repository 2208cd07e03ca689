'''What a person typed as one message: how many lines belong to it, and what it says.

Pure. A backslash at the end of a line, or """ at the beginning, says that more is to come.
'''

from dataclasses import dataclass

QUOTE, CONTINUATION = '"""', "\\"


@dataclass(frozen=True, slots=True)
class Said:
    """What was quoted is `literal`: nothing in it is a command."""

    text: str
    literal: bool = False


def is_quoting(typed: str) -> bool:
    """Whether a quotation has begun that has not ended."""
    begun = typed.strip()
    return begun.startswith(QUOTE) and not begun.removeprefix(QUOTE).endswith(QUOTE)


def said(typed: str) -> Said:
    text = typed.strip()
    if not text.startswith(QUOTE):
        return Said(text)
    return Said(text.removeprefix(QUOTE).removesuffix(QUOTE).strip("\n"), literal=True)
