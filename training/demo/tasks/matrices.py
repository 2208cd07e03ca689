"""Families over a matrix given as a list of rows.

What may live here: rows about the rows, columns and cells of a matrix. It may not know any text layout.
"""

from __future__ import annotations

from training.demo import inputs
from training.demo.instance import Wording
from training.demo.tasks.loops import CHANGED, TEST, Body, collect, count, guarded, indented, keep, total
from training.demo.tasks.rows import CHANGE_NUMBER, KEEP_NUMBER, choice, given, row
from training.demo.tasks.sources import CELLS, COLUMNS, ROWS

for name, statistic, call in (
    ("row_sum", "sum", "sum"),
    ("row_smallest", "minimum", "min"),
    ("row_largest", "maximum", "max"),
):
    row(
        name,
        ROWS,
        (given(statistic=statistic, call=call),),
        collect("{call}(row)"),
        Wording(
            ("row_{statistic}s", "{statistic}_of_rows", "each_row_{statistic}"),
            "return",
            "the {statistic} of each row of a matrix",
            "A list with the {statistic} of each row.",
            "It visits each row and stores its {statistic}.",
        ),
    )
row(
    "row_counts",
    ROWS,
    (KEEP_NUMBER,),
    Body(
        "list[int]",
        ("result = []",),
        ("count = 0", "for value in row:", *indented(guarded(TEST, "count += 1")), "result.append(count)"),
        ("return result",),
    ),
    Wording(
        ("count_{keep.slug}_per_row", "row_{keep.slug}_counts"),
        "count",
        "the {kept} in each row of a matrix",
        "The number of {kept} per row.",
        "It counts each number that {keep.predicate}, row by row.",
    ),
)
row(
    "column_sum",
    COLUMNS,
    (choice("statistic call", ("sum", "sum"), ("minimum", "min"), ("maximum", "max")),),
    collect("{call}(column)"),
    Wording(
        ("column_{statistic}s", "{statistic}_of_columns"),
        "return",
        "the {statistic} of each column of a matrix",
        "A list with the {statistic} of each column.",
        "It turns the rows into columns with zip and stores the {statistic} of each one.",
    ),
)
row(
    "sum_matrix",
    CELLS,
    (KEEP_NUMBER,),
    total(),
    Wording(
        ("sum_{keep.slug}_cells", "total_{keep.slug}_cells"),
        "add up",
        "the {kept} in a matrix",
        "The sum of the {kept}.",
        "It visits every row and adds each number that {keep.predicate}.",
    ),
)
row(
    "count_matrix_cells",
    CELLS,
    (KEEP_NUMBER,),
    count(),
    Wording(
        ("count_{keep.slug}_cells", "number_of_{keep.slug}_cells"),
        "count",
        "the {kept} in a matrix",
        "The number of {kept}.",
        "It visits every row and counts each number that {keep.predicate}.",
    ),
)
row(
    "flatten_matrix",
    CELLS,
    (KEEP_NUMBER,),
    keep(),
    Wording(
        ("flatten_{keep.slug}", "collect_{keep.slug}_cells"),
        "return",
        "the {kept} in a matrix as one list",
        "One list with the {kept}.",
        "It visits every row and keeps each number that {keep.predicate}.",
    ),
)
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
