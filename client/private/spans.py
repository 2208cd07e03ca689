"""Private spans of a prompt: which part may be sent to a server.

Pure. May know the marks that a person writes, and tokens; it may not know templates, tokenizers, sessions or links.
"""

import re
from dataclasses import dataclass

from common.protocol.errors import MisuseError

BEGIN, END = "[[private]]", "[[/private]]"

_MARKS = re.compile("|".join(map(re.escape, (BEGIN, END))))
_MEANT = re.compile(r"\[\[\s*(?:/\s*)?private\s*(?:/\s*)?\]\]", re.IGNORECASE)
"""Matches misspelt marks too."""


@dataclass(frozen=True, slots=True)
class SplitPrompt:
    """`safe` is what precedes the first private span and depends on no character from there on; `private` is all the
    rest, None if there is no span; `is_raw`: no template ends it, so that an answer goes on in its text."""

    safe: tuple[int, ...]
    private: tuple[int, ...] | None = None
    is_raw: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.safe + (self.private or ())


def before_private(text: str) -> str | None:
    """What precedes the first private span, None if there is none. Raises MisuseError for spans that are not
    closed, not opened, nested or misspelt."""
    for meant in _MEANT.findall(text):
        if meant not in (BEGIN, END):
            raise MisuseError(f"'{meant}' is no mark of a private span; write {BEGIN} and {END}")
    is_open = False
    for mark in _MARKS.findall(text):
        if (mark == BEGIN) is is_open:
            raise MisuseError(
                f"a private span begins inside another; end the first with {END}"
                if is_open
                else f"a private span ends that was not begun; begin it with {BEGIN}"
            )
        is_open = not is_open
    if is_open:
        raise MisuseError(f"a private span is not closed; end it with {END}")
    before, mark, _ = text.partition(BEGIN)
    return before if mark else None


def is_in_private(text: str) -> bool:
    """Whether what followed the text would be private, misspelt marks included."""
    marks = _MEANT.findall(text)
    return bool(marks) and "/" not in marks[-1]


def has_marks(text: str) -> bool:
    """Whether anything in the text may have been meant as a mark."""
    return _MEANT.search(text) is not None


def without_marks(text: str) -> str:
    return _MARKS.sub("", text)


def as_private(text: str) -> str:
    """The text as one span. Raises MisuseError if it holds marks of its own."""
    if has_marks(text):
        raise MisuseError(f"a text that is private as a whole cannot hold {BEGIN} or {END}; take the marks out")
    return f"{BEGIN}{text}{END}"
