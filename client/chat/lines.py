"""The input of a chat: the interface, and its simplest implementation, for pipes and dumb terminals.

Knows no conversation. Writes no escape codes.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Protocol

from rich.console import Console

from client.chat.multiline import CONTINUATION, TypedMessage, as_message, is_open

_MORE = "... "
LEAVING = "Ctrl-C again leaves, as do Ctrl-D and /quit"


class Lines(Protocol):
    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """What can be pressed, and what it does."""
        ...

    def ask(self, prompt: str, *, private: bool) -> TypedMessage | None:
        """The next message, which may be empty; None if the person leaves. What is `private` is not kept."""
        ...

    def forget(self) -> None:
        """Private messages cannot be called up again."""


class PlainLines:
    """Lines of standard input as they come; `console` prompts for them, None if no person types."""

    keys = (
        ("Enter", "sends"),
        ("\\", 'at the end of a line: more is to come; """ quotes several lines'),
        ("Ctrl-C", "stops an answer, or clears the line; twice leaves"),
    )

    def __init__(self, console: Console | None):
        self._console = console
        self._interrupted = False
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are no text are reported as such, line by line

    def ask(self, prompt: str, *, private: bool) -> TypedMessage | None:
        while True:
            try:
                typed = self._message(prompt)
            except KeyboardInterrupt:
                if self._interrupted:
                    return None
                self._interrupted = True
                self._write(f"\n{LEAVING}\n")
                continue
            self._interrupted = False
            return None if typed is None else as_message(typed)

    def forget(self) -> None:
        pass

    def _message(self, prompt: str) -> str | None:
        typed = self._line(prompt)
        while typed is not None and (is_open(typed) or typed.endswith(CONTINUATION)):
            more = self._line(_MORE)
            if more is None:
                break
            typed = f"{typed if is_open(typed) else typed.removesuffix(CONTINUATION)}\n{more}"
        return typed

    def _line(self, prompt: str) -> str | None:
        self._write(prompt)
        line = sys.stdin.readline()
        if not line:
            self._write("\n")
            return None
        return line.removesuffix("\n")

    def _write(self, text: str) -> None:
        if self._console is not None:
            self._console.file.write(text)
            self._console.file.flush()
