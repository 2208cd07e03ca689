"""The end of a terminal's output: final text is written once, provisional text behind it is redrawn in place.

Pure: turns updates into the characters to write. Knows cells and rows, not tokens and not terminals.
"""

from collections.abc import Sequence

from rich.cells import cell_len, get_character_cell_size

from common.programs.word_wrap import JOINED, wrapped
from common.protocol.plain import printable

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_ERASE_BELOW = "\x1b[J"
_NEXT_ROW = "\r\n"
# A terminal that knows synchronised updates draws each redraw at once; the others ignore this.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """Lines are broken between words. What is kept is the row that the final text ends in: the word at its end moves to
    the next row if it grows too long for this one."""

    def __init__(self) -> None:
        self._row = ""  # final text since the last break, which begins in the first column
        self._tail = ""  # provisional text behind it
        self._drawn = [""]  # the rows of both, as the terminal has them
        self._text = ""  # all final text
        self._widths: set[int] = set()  # that the terminal has had

    def update(self, final: str, provisional: str, width: int, tail_rows: int) -> str:
        """The characters that append `final` for good and replace what is provisional.

        `width` is the terminal's now, in cells. Provisional text is cut if it would reach more than `tail_rows`
        rows further.
        """
        final = printable(final)
        *above, row = wrapped(self._row + final, width)
        tail = _tail_behind(row, printable(provisional), width, tail_rows)
        if not final and tail == self._tail:
            return ""
        here = wrapped(row + tail, width) if tail else [row]
        lines = [_within(each, width) for each in above] + _inked(here, len(row), width)
        begun = self._drawn[0]
        if not self._tail and (lines[0] if above else _within(here[0], width)[: len(row)]).startswith(begun):
            back, lines[0] = "", lines[0][len(begun) :]
        else:
            back = self._to_the_row(width)
        self._row, self._tail, self._drawn = row, tail, [_within(each, width) for each in here]
        self._text += final
        self._widths.add(width)
        return _BEGIN + back + _NEXT_ROW.join(lines) + _END

    def ended(self, unconfirmed: str, width: int) -> str:
        """The characters that put drafted text that stays unverified behind the final text, for good and whole."""
        unconfirmed = printable(unconfirmed)
        if JOINED.search(self._row + unconfirmed):
            return self.update("", "", width, 0) + _dim(unconfirmed)
        return self.update("", unconfirmed, width, len(unconfirmed))

    def replaced(self, by: str, width: int, height: int) -> str:
        """The characters that put `by`, whole lines, in place of all final text and the newline behind it; empty if
        a part of that may have left the screen, or stand elsewhere on it than it would by the terminal's width now."""
        rows = wrapped(self._text, width)
        if len(rows) >= height or self._widths - {width} or JOINED.search(self._text):
            return ""
        return f"{_BEGIN}\x1b[{len(rows)}A\r{_ERASE_BELOW}{_on_terminal(by)}{_END}"

    def _to_the_row(self, width: int) -> str:
        """Erases what is drawn, from the first column of its first row on."""
        below = sum(_rows_taken(row, width) for row in self._drawn) - 1
        return (f"\x1b[{below}A" if below else "") + "\r" + _ERASE_BELOW


def _tail_behind(row: str, provisional: str, width: int, tail_rows: int) -> str:
    if JOINED.search(row + provisional):
        return ""
    behind = wrapped(row + provisional, width)[: tail_rows + 1]
    return "".join(behind)[len(row) :].removesuffix("\n")


def _inked(rows: Sequence[str], firm: int, width: int) -> list[str]:
    """The rows as they are written: all but the first `firm` characters dim."""
    lines = []
    for row in rows:
        shown = _within(row, width)
        lines.append(shown[:firm] + _dim(shown[firm:]))
        firm = max(0, firm - len(row))
    return lines


def _within(row: str, width: int) -> str:
    """A row without what is not to be seen of it."""
    shown = row.removesuffix("\n")
    beyond = cell_len(shown) - width
    spaces = len(shown) - len(shown.rstrip(" "))
    return shown if JOINED.search(shown) else shown[: len(shown) - max(0, min(beyond, spaces))]


def _rows_taken(row: str, width: int) -> int:
    """Of a terminal that was made narrower after the row was written."""
    rows, used = 1, 0
    for character in row:
        cells = get_character_cell_size(character)
        if used + cells > width:
            rows, used = rows + 1, 0
        used += cells
    return rows


def _dim(text: str) -> str:
    return f"{_DIM}{_on_terminal(text)}{_PLAIN}" if text else ""


def _on_terminal(text: str) -> str:
    return text.replace("\n", "\r\n")
