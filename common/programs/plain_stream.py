"""The one place where text leaves a program: nothing that is written to a terminal or a log can command it, whoever
chose its words.

Knows the process's streams. What draws on a terminal by commands of its own asks for the `drawable` stream, and makes
plain what it shows: `common/programs/console.py` and the client's screen. It comes before everything slow, so
neither it nor what it imports may import more than the standard library.
"""

import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from common.protocol.plain import printable


class PlainStream:
    """A text stream that loses what is not printable."""

    def __init__(self, stream: TextIO):
        self.rich_proxied_file = stream  # where rich's consoles write instead, by this name

    def write(self, text: str) -> int:
        # Libraries' progress bars begin their line anew.
        begin = "\r" if text.startswith("\r") else ""
        self.rich_proxied_file.write(begin + printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """From now on stderr is plain, which people read whatever it is, and stdout where it is a terminal: files and pipes
    get what was answered as it is."""
    sys.stderr = _guarded(sys.stderr)
    if sys.stdout.isatty():
        sys.stdout = _guarded(sys.stdout)


def drawable(stream: TextIO) -> TextIO:
    """The stream that does what it is commanded, behind all that stand before it."""
    while hasattr(stream, "rich_proxied_file"):
        stream = cast(TextIO, stream.rich_proxied_file)
    return stream


def _guarded(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, PlainStream) else cast(TextIO, PlainStream(stream))
