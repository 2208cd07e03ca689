"""Output streams without control characters: text that a peer chose cannot control the terminal or forge log lines.

It may know the process's streams. Code that itself draws with control sequences asks for the `drawable` stream and
removes control characters from what it shows: `common/programs/console.py` and the client's screen. This module is
imported before anything slow, so it and its imports may use only the standard library.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from common.protocol.plain import printable


class PlainStream:
    """A text stream that drops characters that are not printable."""

    def __init__(self, stream: TextIO):
        self.rich_proxied_file = stream  # rich's consoles look for this name and write there instead

    def write(self, text: str) -> int:
        # Progress bars of libraries return to the start of their line.
        begin = "\r" if text.startswith("\r") else ""
        self.rich_proxied_file.write(begin + printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Replaces stderr by a plain stream, and stdout too if it is a terminal: files and pipes get answers unchanged.
    Streams that a shell closed, as by `<&- >&- 2>&-`, are opened on nothing, so that no use of them fails."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, it stays open
    sys.stderr = _guarded(sys.stderr)
    if sys.stdout.isatty():
        sys.stdout = _guarded(sys.stdout)


def drawable(stream: TextIO) -> TextIO:
    """The underlying stream, which takes control sequences, behind all wrappers."""
    while hasattr(stream, "rich_proxied_file"):
        stream = cast(TextIO, stream.rich_proxied_file)
    return stream


def _guarded(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, PlainStream) else cast(TextIO, PlainStream(stream))
