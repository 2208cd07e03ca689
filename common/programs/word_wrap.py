"""Text broken into rows of a terminal, between words.

Pure: knows cells, and not what is shown in them.
"""

import re

from rich.cells import cell_len, get_character_cell_size

# Terminals disagree on the cells of what these join, so nothing behind them could be erased exactly: zero-width
# joiners, variation selectors, keycaps, flags, skin tones.
JOINED = re.compile("[\u200d\ufe00-\ufe0f\u20e3\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


def wrapped(text: str, width: int) -> list[str]:
    """The rows that a text is shown in on a terminal of `width` cells, broken between words if possible; together
    they are the text. Spaces at the end of a row may reach beyond it, and so
    may a line that has what is JOINED."""
    *lines, last = text.split("\n")
    rows = []
    for line in lines:
        *above, end = _wrapped_line(line, width)
        rows += [*above, end + "\n"]
    return rows + _wrapped_line(last, width)


def _wrapped_line(line: str, width: int) -> list[str]:
    if JOINED.search(line):
        return [line]  # the terminal alone knows where to break it
    rows, start, used = [], 0, 0
    word = 0  # where the line may be broken
    for index, character in enumerate(line):
        cells = get_character_cell_size(character)
        if cells > 1 or (cells == 0 and word == index):
            word = index + (cells == 0)  # beside any wide character, and not before what is combined with one
        if character != " " and used + cells > width:
            for at in (word, index):  # before the word, and if that is longer than a row, within it
                if at > start and used + cells > width:
                    rows.append(line[start:at])
                    start, used = at, cell_len(line[at:index])
            word = max(word, start)
        used += cells
        if character == " " or cells > 1:
            word = index + 1
    return [*rows, line[start:]]
