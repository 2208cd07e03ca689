"""The end of a terminal's output: final text is written once, provisional text behind it is redrawn in place.

Pure: turns updates into the characters to write. Knows cells and rows, not tokens and not terminals.
"""

import re

from rich.cells import get_character_cell_size

from common.protocol.plain import printable

# Terminals disagree on the cells of what these join, so nothing behind them could be erased exactly: zero-width
# joiners, variation selectors, keycaps, flags, skin tones.
_JOINED = re.compile("[\u200d\ufe00-\ufe0f\u20e3\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_ERASE_BELOW = "\x1b[J"
# A terminal that knows synchronised updates draws each redraw at once; the others ignore this.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """Keeps the line that the final text ends in, as much as the terminal may have wrapped anew by the next update."""

    def __init__(self) -> None:
        self._line = ""  # final text since the last newline
        self._tail = ""  # provisional text behind it
        self._text = ""  # all final text
        self._widths: set[int] = set()  # that the terminal has had

    def update(self, final: str, provisional: str, width: int, tail_rows: int) -> str:
        """The characters that append `final` for good and replace what is provisional.

        `width` is the terminal's now, in cells. Provisional text is cut where it would reach more than `tail_rows`
        rows further.
        """
        final = printable(final)
        line = (self._line + final).rpartition("\n")[2]
        tail = _tail_behind(line, printable(provisional), width, tail_rows)
        if not final and tail == self._tail:
            return ""
        back = self._before_tail(width) if self._tail else ""
        self._line, self._tail = line, tail
        self._text += final
        self._widths.add(width)
        return _BEGIN + back + _on_terminal(final) + _dim(tail) + _END

    def replaced(self, by: str, width: int, height: int) -> str:
        """The characters that put `by`, whole lines, in place of all final text and the newline behind it; empty where
        a part of that may have left the screen, or stand elsewhere on it than it would by the terminal's width now."""
        rows = wrapped(self._text, width)
        if len(rows) >= height or self._widths - {width} or _JOINED.search(self._text):
            return ""
        return f"{_BEGIN}\x1b[{len(rows)}A\r{_ERASE_BELOW}{_on_terminal(by)}{_END}"

    def _before_tail(self, width: int) -> str:
        """Erases the tail, by drawing the final text's last row anew from its first column."""
        rows = wrapped(self._line, width)
        below = len(wrapped(self._line + self._tail, width)) - len(rows)
        up = f"\x1b[{below}A" if below else ""
        return up + "\r" + _ERASE_BELOW + rows[-1]


def _tail_behind(line: str, provisional: str, width: int, tail_rows: int) -> str:
    row = wrapped(line, width)[-1]
    behind = wrapped(row + provisional, width)[: tail_rows + 1]
    tail = "".join(behind)[len(row) :].removesuffix("\n")
    return "" if _JOINED.search(line + tail) else tail


def dimmed(text: str) -> str:
    """The characters that show text which is not final, for good."""
    return _dim(printable(text))


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


def _dim(text: str) -> str:
    return f"{_DIM}{_on_terminal(text)}{_PLAIN}" if text else ""


def _on_terminal(text: str) -> str:
    return text.replace("\n", "\r\n")
