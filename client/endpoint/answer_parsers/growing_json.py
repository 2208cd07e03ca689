"""Reads the JSON value in a text that grows, and looks at each character once until the value may be whole. Pure.

It may not know calls.
"""

import json
import re
from collections.abc import Callable
from typing import Any

ReadJson = Callable[[str, int], tuple[Any, int] | None]
"""The JSON value that begins in a text behind so many characters, and where it ends; None for none, or for one that is
not whole."""

_DECODER = json.JSONDecoder(strict=False)  # models write line breaks into strings

_BLANKS = re.compile(r"\s*")
_OUTSIDE = re.compile(r'["{}\[\]]|[^\s,:.+\-0-9EINaefilnrstuy]')  # or what stands in no number and no literal
_INSIDE = re.compile(r'["\\]')


def read_json(text: str, start: int) -> tuple[Any, int] | None:
    """Decodes all of it at each call: for a text that has ended."""
    try:
        return _DECODER.raw_decode(text, _first(text, start))
    except (ValueError, RecursionError):
        return None


class GrowingJson:
    """`read` is to be given the same text again and again, each time with more at its end. `is_broken`: what began with
    a bracket there is no JSON, whatever follows."""

    def __init__(self) -> None:
        self.is_broken = False
        self._begin(-1)

    def read(self, text: str, start: int) -> tuple[Any, int] | None:
        start = _first(text, start)
        if not text.startswith(("{", "["), start):
            return read_json(text, start)
        if start != self._start:
            self._begin(start)
        if self.is_broken or not self._may_be_whole(text):
            return None
        found = read_json(text, start)
        self.is_broken = found is None  # its brackets are closed, so that more text mends nothing
        return found

    def _begin(self, start: int) -> None:
        self._start = start
        self._position = start  # up to where brackets are counted
        self._depth = 0
        self._is_in_string = False
        self.is_broken = False

    def _may_be_whole(self, text: str) -> bool:
        """Whether the bracket that is the first has been closed."""
        while self._depth or self._position == self._start:
            found = (_INSIDE if self._is_in_string else _OUTSIDE).search(text, self._position)
            if found is None:
                self._position = len(text)
                return False
            if not (self._is_in_string or found[0] in '"{}[]'):
                self.is_broken = True
                return False
            if found[0] == "\\" and found.end() == len(text):
                self._position = found.start()
                return False
            self._position = found.end() + (found[0] == "\\")
            if found[0] == '"':
                self._is_in_string = not self._is_in_string
            elif found[0] != "\\":
                self._depth += 1 if found[0] in "{[" else -1
        return True


def _first(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start
