"""Makes text from a peer safe for a terminal or a log: no control characters, bounded length. Pure."""

import re

LONGEST_NAME = 255
"""Characters of what a peer calls a model, a draft or a file."""

LONGEST_LINE = 2000
"""Characters of one line for a person, quotes included."""

_LONGEST_QUOTE = 60

_TAB = " " * 4
# Controls but the newline, what breaks lines besides, and what turns the direction of all that follows.
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def is_plain(text: str, longest: int = LONGEST_NAME) -> bool:
    """Whether it is at least one character and at most so many, all of them printable."""
    return 0 < len(text) <= longest and text.isprintable()


def plain(text: str, longest: int = _LONGEST_QUOTE) -> str:
    """The text in one line, cut to so many characters, with blanks for what is not printable."""
    head = "".join(each if each.isprintable() else " " for each in text[:longest])
    return head.strip() if len(text) <= longest else f"{head.strip()}…"


def printable(text: str) -> str:
    """The text without what would move the cursor, command the terminal or reverse what is read; newlines, and what
    joins the letters of many scripts, are kept."""
    return text if text.isprintable() else _UNPRINTABLE.sub("", text.replace("\t", _TAB))
