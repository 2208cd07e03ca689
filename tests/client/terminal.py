"""A terminal small enough for tests: what a person sees after the characters that a program wrote."""

import re

from rich.cells import cell_len

_SEQUENCE = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|(\r)|(\n)|(.)", re.DOTALL)


class Terminal:
    """Understands what the screen writes and refuses the rest. Rows that scrolled away stay in `rows`."""

    def __init__(self, width: int, height: int):
        self.rows = [""]
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
                self._next_row()
            elif not private:
                self._obey(command, int(count or 0))

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

    def _obey(self, command: str, count: int) -> None:
        match command:
            case "A":
                self._row -= count
                assert self._row >= max(0, len(self.rows) - self._height), "moved above the screen"
            case "J":
                assert self._column == 0
                del self.rows[self._row + 1 :]
                self.rows[self._row] = ""
                self.dim_text = ""
            case "m":
                self.dim = count == 2
            case _:
                raise AssertionError(f"unknown command {command}")

    def _print(self, character: str) -> None:
        if self._column + cell_len(character) > self._width:
            self._next_row()
        self.rows[self._row] += character
        self._column += cell_len(character)
        self.dim_text += character if self.dim else ""

    def _next_row(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self.rows):
            self.rows.append("")
