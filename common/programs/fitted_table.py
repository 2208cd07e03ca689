"""Tables of text that fit a terminal, whatever its width: cells are broken between words, and columns that do not fit
beside the others follow below.

Pure: knows cells of text, and not what they say.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size

from common.programs.word_wrap import wrapped

_GAP = "  "

Column = Sequence[str]
"""A heading and the cells under it."""


def fitted_table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table, at most `width` cells wide, with an empty line between its parts.

    Each part begins with the first columns that tell the rows apart. Where not even one column fits beside those, each
    row becomes lines of their own, `heading: cell`.
    """
    columns: list[Column] = list(zip(headings, *rows, strict=True))
    first = _telling_apart(rows)
    parts: list[list[Column]] = [columns[:first]]
    for column in columns[first:]:
        if _narrowest([*parts[-1], column]) > width and len(parts[-1]) > first:
            parts.append(columns[:first])
        parts[-1] = [*parts[-1], column]
    if any(_narrowest(part) > width for part in parts):
        blocks = [list(_one_below_the_other(headings, row, width)) for row in rows]
    else:
        blocks = [list(_side_by_side(part, width)) for part in parts]
    return [line for block in blocks for line in ("", *block)][1:]


def _telling_apart(rows: Sequence[Sequence[str]]) -> int:
    """How many first columns no two rows have the same cells in; one where all columns are not enough."""
    width = len(rows[0]) if rows else 1
    counts = range(1, width + 1)
    return next((count for count in counts if len({tuple(row[:count]) for row in rows}) == len(rows)), 1)


def _longest_word(column: Column) -> int:
    return max((cell_len(word) for cell in column for word in cell.split()), default=0)


def _longest_line(column: Column) -> int:
    return max((cell_len(line) for cell in column for line in cell.split("\n")), default=0)


def _narrowest(columns: Sequence[Column]) -> int:
    return sum(map(_longest_word, columns)) + len(_GAP) * (len(columns) - 1)


def _side_by_side(columns: Sequence[Column], width: int) -> Iterator[str]:
    sizes, spare = [*map(_longest_word, columns)], width - _narrowest(columns)
    lacking = [_longest_line(column) - size for column, size in zip(columns, sizes, strict=True)]
    for index in sorted(range(len(columns)), key=lacking.__getitem__):  # so that most columns need not be broken
        given = max(0, min(lacking[index], spare))
        sizes[index], spare = sizes[index] + given, spare - given
    for row in zip(*columns, strict=True):
        cells = [_lines(cell, size) for cell, size in zip(row, sizes, strict=True)]
        for beside in zip_longest(*cells, fillvalue=""):
            yield _GAP.join(set_cell_size(cell, size) for cell, size in zip(beside, sizes, strict=True)).rstrip()


def _one_below_the_other(headings: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    for heading, cell in zip(headings, row, strict=True):
        yield from _lines(f"{heading}: {cell}", width)


def _lines(text: str, width: int) -> list[str]:
    return [row.rstrip() for row in wrapped(text, max(1, width))]
