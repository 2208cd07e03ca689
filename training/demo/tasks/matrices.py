"""Families over a matrix given as a list of rows. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import number_condition, number_transform
from training.demo.registry import family


def sketch(
    draw: Draw,
    matrix: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
    square: bool = False,
) -> Sketch:
    """A sketch with one rectangular matrix; `square` asks for square ones only."""
    return Sketch(
        draw.name(*stems),
        (matrix,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick(([[1, 2], [3, 4]], [[5, 8], [2, 7]], [[9, 4], [6, 1]])),),
        draw.cases(lambda: (draw.matrix(square),), extra=tuple(([[number]],) for number in draw.telling_numbers())),
    )


def per_row(draw: Draw, noun: str, expression: str) -> Sketch:
    matrix = draw.parameter("matrix")
    return sketch(
        draw,
        matrix,
        (f"row_{noun}s", f"{noun}_of_rows", f"each_row_{noun}"),
        "list[int]",
        "return",
        f"the {noun} of each row of a matrix",
        f"A list with the {noun} of each row.",
        ("result = []", f"for row in {matrix.name}:", f"    result.append({expression})", "return result"),
        f"It visits each row and stores its {noun}.",
    )


@family
def row_sum(draw: Draw) -> Sketch:
    return per_row(draw, "sum", "sum(row)")


@family
def row_smallest(draw: Draw) -> Sketch:
    return per_row(draw, "minimum", "min(row)")


@family
def row_largest(draw: Draw) -> Sketch:
    return per_row(draw, "maximum", "max(row)")


@family
def row_counts(draw: Draw) -> Sketch:
    matrix, keep = draw.parameter("matrix"), number_condition(draw)
    return sketch(
        draw,
        matrix,
        (f"count_{keep.slug}_per_row", f"row_{keep.slug}_counts"),
        "list[int]",
        "count",
        f"the {keep.nouns('numbers')} in each row of a matrix",
        f"The number of {keep.nouns('numbers')} per row.",
        (
            "result = []",
            f"for row in {matrix.name}:",
            "    count = 0",
            "    for value in row:",
            f"        if {keep.code('value')}:",
            "            count += 1",
            "    result.append(count)",
            "return result",
        ),
        f"It counts each number that {keep.predicate}, row by row.",
    )


@family
def column_sum(draw: Draw) -> Sketch:
    matrix = draw.parameter("matrix")
    noun, call = draw.pick((("sum", "sum"), ("minimum", "min"), ("maximum", "max")))
    return sketch(
        draw,
        matrix,
        (f"column_{noun}s", f"{noun}_of_columns"),
        "list[int]",
        "return",
        f"the {noun} of each column of a matrix",
        f"A list with the {noun} of each column.",
        (
            "result = []",
            f"for column in zip(*{matrix.name}):",
            f"    result.append({call}(column))",
            "return result",
        ),
        f"It turns the rows into columns with zip and stores the {noun} of each one.",
    )


@family
def sum_matrix(draw: Draw) -> Sketch:
    matrix, keep = draw.parameter("matrix"), number_condition(draw)
    return sketch(
        draw,
        matrix,
        (f"sum_{keep.slug}_cells", f"total_{keep.slug}_cells"),
        "int",
        "add up",
        f"the {keep.nouns('numbers')} in a matrix",
        f"The sum of the {keep.nouns('numbers')}.",
        (
            "total = 0",
            f"for row in {matrix.name}:",
            "    for value in row:",
            f"        if {keep.code('value')}:",
            "            total += value",
            "return total",
        ),
        f"It visits every row and adds each number that {keep.predicate}.",
    )


@family
def count_matrix_cells(draw: Draw) -> Sketch:
    matrix, keep = draw.parameter("matrix"), number_condition(draw)
    return sketch(
        draw,
        matrix,
        (f"count_{keep.slug}_cells", f"number_of_{keep.slug}_cells"),
        "int",
        "count",
        f"the {keep.nouns('numbers')} in a matrix",
        f"The number of {keep.nouns('numbers')}.",
        (
            "count = 0",
            f"for row in {matrix.name}:",
            "    for value in row:",
            f"        if {keep.code('value')}:",
            "            count += 1",
            "return count",
        ),
        f"It visits every row and counts each number that {keep.predicate}.",
    )


@family
def flatten_matrix(draw: Draw) -> Sketch:
    matrix, keep = draw.parameter("matrix"), number_condition(draw)
    return sketch(
        draw,
        matrix,
        (f"flatten_{keep.slug}", f"collect_{keep.slug}_cells"),
        "list[int]",
        "return",
        f"the {keep.nouns('numbers')} in a matrix as one list",
        f"One list with the {keep.nouns('numbers')}.",
        (
            "result = []",
            f"for row in {matrix.name}:",
            "    for value in row:",
            f"        if {keep.code('value')}:",
            "            result.append(value)",
            "return result",
        ),
        f"It visits every row and keeps each number that {keep.predicate}.",
    )


@family
def map_matrix(draw: Draw) -> Sketch:
    matrix, change = draw.parameter("matrix"), number_transform(draw)
    return sketch(
        draw,
        matrix,
        (f"{change.slug}_cells", f"{change.slug}_matrix"),
        "list[list[int]]",
        "return",
        f"a matrix with each number {change.participle}",
        f"A matrix with each number {change.participle}.",
        (
            "result = []",
            f"for row in {matrix.name}:",
            "    changed = []",
            "    for value in row:",
            f"        changed.append({change.code('value')})",
            "    result.append(changed)",
            "return result",
        ),
        f"It builds new rows with each number {change.participle}.",
    )


@family
def transpose_matrix(draw: Draw) -> Sketch:
    matrix = draw.parameter("matrix")
    return sketch(
        draw,
        matrix,
        ("transpose", "flip_matrix", "swap_rows_and_columns"),
        "list[list[int]]",
        "swap",
        "the rows and columns of a matrix",
        "The transposed matrix.",
        (
            "result = []",
            f"for column in zip(*{matrix.name}):",
            "    result.append(list(column))",
            "return result",
        ),
        "It turns the rows into columns with zip.",
    )


@family
def matrix_diagonal(draw: Draw) -> Sketch:
    matrix, change = draw.parameter("matrix"), number_transform(draw)
    return sketch(
        draw,
        matrix,
        (f"diagonal_{change.slug}", f"{change.slug}_diagonal"),
        "list[int]",
        "return",
        f"the diagonal of a square matrix, each number {change.participle}",
        f"The numbers of the diagonal, each {change.participle}.",
        (
            "result = []",
            f"for index in range(len({matrix.name})):",
            f"    value = {matrix.name}[index][index]",
            f"    result.append({change.code('value')})",
            "return result",
        ),
        f"It visits the diagonal by index and stores each number {change.participle}.",
        square=True,
    )
