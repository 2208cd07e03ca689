"""Sanitises text that a peer chose before people or logs see it: no control characters, bounded length. Pure."""

import re

LONGEST_NAME = 255
"""The most characters of a peer's name for a model, a draft or a file."""

LONGEST_LINE = 2000
"""The most characters of a line for people, whatever it quotes."""

TYPEABLE = "use 1 to 64 of the letters a to z, A to Z, digits and . _ -, the first a letter or a digit"
"""How to name something so that `is_typeable` is true, as half a sentence."""

_TYPEABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LONGEST_QUOTE = 60

_TAB = " " * 4
# Control characters but the newline, other line separators, and marks that change the direction of text.
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def is_typeable(name: str) -> bool:
    """Whether people can type it on any command line, where it is neither a path nor an option; see `TYPEABLE`."""
    return _TYPEABLE.fullmatch(name) is not None


def is_plain(name: str) -> bool:
    """Whether the name has 1 to LONGEST_NAME characters, all of them printable."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()


def plain(text: str, longest: int = _LONGEST_QUOTE) -> str:
    """The text in one line, cut to `longest` characters, with blanks in place of characters that are not printable."""
    head = "".join(each if each.isprintable() else " " for each in text[:longest])
    return head.strip() if len(text) <= longest else f"{head.strip()}…"


def printable(text: str) -> str:
    """The text without characters that move the cursor, control the terminal or reverse the direction of reading.
    Newlines stay, and so do the joiners that many scripts need."""
    return text if text.isprintable() else _UNPRINTABLE.sub("", text.replace("\t", _TAB))
