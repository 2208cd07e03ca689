"""A terminal emulator for tests: what a user sees after the characters that a program wrote."""

import re

from rich.cells import cell_len

_JOINER, _SELECTOR = "\u200d", "\ufe0f"
_SEQUENCE = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|(\r)|(\n)|(.)", re.DOTALL)


class Terminal:
    """Supports what the screen writes and rejects everything else. Rows that scrolled away stay in `rows`."""

    def __init__(self, width: int, height: int, joins: bool = False):
        """With `joins`, emoji behind a joiner take no cells of their own."""
        self.rows = [""]
        self._continued = [False]  # whether a row goes on where the row above was full
        self._joins = joins
        self.dim = False
        self.dim_text = ""
        self._width = width
        self._height = height
        self._row = 0
        self._column = 0

    def write(self, characters: str) -> None:
        for private, count, command, carriage, feed, printed in _SEQUENCE.findall(characters):
            if printed:
                self._print(printed)
            elif carriage:
                self._column = 0
            elif feed:
                self._next_row(continued=False)
            elif not private:
                self._obey(command, int(count or 0))

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

    @property
    def lines(self) -> str:
        """The text, each line unwrapped."""
        pairs = zip(self._continued, self.rows, strict=True)
        return "".join(row if first else f"\n{row}" for first, row in pairs).removeprefix("\n")

    def resize(self, width: int) -> None:
        """Wraps everything again, as most terminals do; the cursor stays behind the last character."""
        assert self._row == len(self.rows) - 1
        lines, dim_text = self.lines, self.dim_text
        self.rows, self._continued, self._row, self._column, self._width = [""], [False], 0, 0, width
        self.write(lines.replace("\n", "\r\n"))
        self.dim_text = dim_text

    def _obey(self, command: str, count: int) -> None:
        match command:
            case "A":
                self._row -= count
                assert self._row >= max(0, len(self.rows) - self._height), "moved above the screen"
            case "J":
                assert self._column == 0
                del self.rows[self._row + 1 :], self._continued[self._row + 1 :]
                self.rows[self._row] = ""
                self.dim_text = ""
            case "m":
                self.dim = count == 2
            case _:
                raise AssertionError(f"unknown command {command}")

    def _print(self, character: str) -> None:
        cells = self._cells(character)
        if self._column + cells > self._width:
            self._next_row(continued=True)
        self.rows[self._row] += character
        self._column += cells
        self.dim_text += character if self.dim else ""

    def _cells(self, character: str) -> int:
        joined = self.rows[self._row].endswith(_JOINER) or character in (_JOINER, _SELECTOR)
        return 0 if self._joins and joined else cell_len(character)

    def _next_row(self, continued: bool) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self.rows):
            self.rows.append("")
            self._continued.append(continued)
