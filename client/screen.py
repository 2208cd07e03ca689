"""The end of a terminal's output: final text is written once, provisional text behind it is redrawn in place.

Pure: turns updates into the characters to write. Knows cells and rows, not tokens and not terminals.
"""

import re

from rich.cells import get_character_cell_size

_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_TAB = " " * 4
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_ERASE_BELOW = "\x1b[J"
# A terminal that knows synchronised updates draws each redraw at once; the others ignore this.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """Keeps the row that the final text ends in, since a redraw begins at that row's first column."""

    def __init__(self, width: int, tail_rows: int):
        """`width` in cells. Provisional text is cut where it would reach more than `tail_rows` rows further."""
        self._width = width
        self._tail_rows = tail_rows
        self._row = ""
        self._tail = ""
        self._rows_below = 0  # rows that the tail reaches below the row

    def update(self, final: str, provisional: str) -> str:
        """The characters that append `final` for good and replace what is provisional."""
        rows = wrapped(self._row + printable(final), self._width)
        row = rows[-1]
        behind = wrapped(row + printable(provisional), self._width)[: self._tail_rows + 1]
        tail = "".join(behind)[len(row) :].removesuffix("\n")
        if not final and tail == self._tail:
            return ""
        home = (f"\x1b[{self._rows_below}A" if self._rows_below else "") + "\r" + _ERASE_BELOW
        self._row, self._tail, self._rows_below = row, tail, len(wrapped(row + tail, self._width)) - 1
        dim = f"{_DIM}{_on_terminal(tail)}{_PLAIN}" if tail else ""
        return _BEGIN + home + _on_terminal("".join(rows)) + dim + _END


def printable(text: str) -> str:
    """The text without what would move the cursor or command the terminal, newlines excepted."""
    return _UNPRINTABLE.sub("", text.replace("\t", _TAB))


def wrapped(text: str, width: int) -> list[str]:
    """The rows that a terminal of `width` cells breaks a text into; together they are the text."""
    rows, start, used = [], 0, 0
    for index, character in enumerate(text):
        cells = get_character_cell_size(character)
        if used + cells > width:
            rows.append(text[start:index])
            start, used = index, 0
        used += cells
        if character == "\n":
            rows.append(text[start : index + 1])
            start, used = index + 1, 0
    return [*rows, text[start:]]


def _on_terminal(text: str) -> str:
    return text.replace("\n", "\r\n")
