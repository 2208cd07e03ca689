"""Families over a matrix given as a list of rows.

What may live here: rows about the rows, columns and cells of a matrix. It may not know any text layout.
"""

from __future__ import annotations

from training.demo import inputs
from training.demo.instance import Wording
from training.demo.tasks.loops import CHANGED, Body, collect
from training.demo.tasks.rows import CHANGE_NUMBER, row
from training.demo.tasks.sources import COLUMNS, ROWS

row(
    "map_matrix",
    ROWS,
    (CHANGE_NUMBER,),
    Body(
        "list[list[int]]",
        ("result = []",),
        ("changed = []", "for value in row:", f"    changed.append({CHANGED})", "result.append(changed)"),
        ("return result",),
    ),
    Wording(
        ("{change.slug}_cells", "{change.slug}_matrix"),
        "return",
        "a matrix with each number {change.participle}",
        "A matrix with each number {change.participle}.",
        "It builds new rows with each number {change.participle}.",
    ),
)
row(
    "transpose_matrix",
    COLUMNS,
    (),
    collect("list(column)", "list[list[int]]"),
    Wording(
        ("transpose", "flip_matrix", "swap_rows_and_columns"),
        "swap",
        "the rows and columns of a matrix",
        "The transposed matrix.",
        "It turns the rows into columns with zip.",
    ),
)
row(
    "matrix_diagonal",
    ROWS.over("for index in range(len({name})):").with_inputs(lambda draw: inputs.matrix(draw, square=True)),
    (CHANGE_NUMBER,),
    Body(
        "list[int]",
        ("result = []",),
        ("value = {name}[index][index]", f"result.append({CHANGED})"),
        ("return result",),
    ),
    Wording(
        ("diagonal_{change.slug}", "{change.slug}_diagonal"),
        "return",
        "the diagonal of a square matrix, each number {change.participle}",
        "The numbers of the diagonal, each {change.participle}.",
        "It visits the diagonal by index and stores each number {change.participle}.",
    ),
)
