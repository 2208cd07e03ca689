"""What composed families iterate over: one row per source, with its words and its loop.

What may live here: the elements of a parameter, in words and as code. It may not know what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.demo import inputs
from training.demo.instance import Inputs, InstanceDraw
from training.demo.parts import (
    Condition,
    Transform,
    character_condition,
    character_transform,
    composed,
    natural_condition,
    number_condition,
    number_transform,
    word_condition,
    word_transform,
)


@dataclass(frozen=True)
class GridKind:
    """What the elements of a source are: their type, and the conditions and changes that fit them."""

    type: str
    condition: Callable[[InstanceDraw], Condition]
    change: Callable[[InstanceDraw], Transform]


def some(make: Callable[[InstanceDraw], Condition]) -> Callable[[InstanceDraw], Condition]:
    """Conditions as `make` draws them, their opposites, and pairs of them."""
    return lambda draw: composed(draw, make)


NUMBER = GridKind("int", some(number_condition), number_transform)
NATURAL = GridKind("int", some(natural_condition), number_transform)
WORD = GridKind("str", some(word_condition), word_transform)
CHARACTER = GridKind("str", some(character_condition), character_transform)
BY_VALUE = GridKind("str", some(number_condition), word_transform)


@dataclass(frozen=True)
class Packed:
    """How chosen elements are given back: in words, as code and as a type."""

    said: str
    plan: str
    code: str
    type: str


LIST = Packed("a list of the {many}", "return them as a list", "chosen", "list[{type}]")
TEXT = Packed("the {many_}as one text", "return them as one text", '"".join(chosen)', "str")
SPACED = Packed("the {many}, joined with spaces", "join them with spaces", '" ".join(chosen)', "str")
COMMAS = Packed("the {many}, joined with commas", "join them with commas", '",".join(chosen)', "str")
DICTIONARY = Packed("a dictionary of the {many}", "return them as a dictionary", "dict(chosen)", "dict[str, int]")


@dataclass(frozen=True)
class Elements:
    """The elements of a parameter: `one` and `many` name them, `place` is where they are.

    `loop` goes through them and `item` is one of them; in both, `{name}` is the parameter, `{each}` the name of its
    elements and `{k}` a drawn number between `least_k` and `most_k`. `tested` is what a condition looks at, where that
    is not the item, and `whose` then begins the clause. `whole` is all elements as a list, where Python has a short
    form. `packed` is how chosen ones are given back, and `counted` says whether an index finds them.
    """

    slug: str
    kind: GridKind
    parameter: str
    inputs: Callable[[InstanceDraw], Inputs]
    one: str
    many: str
    place: str
    loop: str
    item: str
    whole: str = ""
    tested: str = ""
    whose: str = ""
    packed: Packed = LIST
    counted: bool = False
    never_empty: bool = False
    least_k: int = 0
    most_k: int = 0

    def constants(self, draw: InstanceDraw) -> dict[str, Any]:
        return {"k": draw.constant(self.least_k, self.most_k)} if self.most_k else {}

    @property
    def the_place(self) -> str:
        """The place with a definite article: "in the list"."""
        return self.place.replace(" a ", " the ").replace(" each ", " the ")


def non_negative(draw: InstanceDraw) -> Inputs:
    return inputs.number(draw, low=0)


ELEMENTS = (
    Elements(
        "numbers", NUMBER, "int_list", inputs.number_list, "number", "numbers", "in a list",
        "for {each} in {name}", "{each}", "list({name})", counted=True,
    ),
    Elements(
        "values", NUMBER, "int_dict", inputs.mapping, "value", "values", "in a dictionary",
        "for value in {name}.values()", "value", "list({name}.values())",
    ),
    Elements(
        "cells", NUMBER, "matrix", inputs.matrix, "number", "numbers", "in a matrix",
        "for row in {name} for value in row", "value", never_empty=True,
    ),
    Elements(
        "first_row", NUMBER, "matrix", inputs.matrix, "number", "numbers", "in the first row of a matrix",
        "for value in {name}[0]", "value", "list({name}[0])", never_empty=True, counted=True,
    ),
    Elements(
        "last_column", NUMBER, "matrix", inputs.matrix, "number", "numbers", "in the last column of a matrix",
        "for row in {name}", "row[-1]", never_empty=True,
    ),
    Elements(
        "row_sums", NUMBER, "matrix", inputs.matrix, "row sum", "row sums", "of a matrix",
        "for row in {name}", "sum(row)", never_empty=True,
    ),
    Elements(
        "column_sums", NUMBER, "matrix", inputs.matrix, "column sum", "column sums", "of a matrix",
        "for column in zip(*{name})", "sum(column)", never_empty=True,
    ),
    Elements(
        "digits", NATURAL, "int", non_negative, "digit", "digits", "of a non-negative number",
        "for digit in str({name})", "int(digit)", never_empty=True,
    ),
    Elements(
        "range", NATURAL, "int", inputs.size, "number", "numbers", "from 1 up to a limit",
        "for candidate in range(1, {name} + 1)", "candidate", "list(range(1, {name} + 1))",
    ),
    Elements(
        "multiples", NATURAL, "int", inputs.size, "positive multiple of {k}", "positive multiples of {k}",
        "below a limit", "for candidate in range({k}, {name}, {k})", "candidate", "list(range({k}, {name}, {k}))",
        least_k=2, most_k=12,
    ),
    Elements(
        "lengths", NATURAL, "word_list", inputs.word_list, "word length", "word lengths", "in a list of words",
        "for {each} in {name}", "len({each})",
    ),
    Elements(
        "text_lengths", NATURAL, "text", inputs.text, "word length", "word lengths", "in a text",
        "for part in {name}.split()", "len(part)",
    ),
    Elements(
        "words", WORD, "word_list", inputs.word_list, "word", "words", "in a list",
        "for {each} in {name}", "{each}", "list({name})", counted=True,
    ),
    Elements(
        "parts", WORD, "text", inputs.text, "word", "words", "in a text",
        "for part in {name}.split()", "part", "{name}.split()", packed=SPACED, counted=True,
    ),
    Elements(
        "pieces", WORD, "text", inputs.pieces, "part", "parts", "of a text between commas",
        'for part in {name}.split(",")', "part", '{name}.split(",")', packed=COMMAS, counted=True, never_empty=True,
    ),
    Elements(
        "keys", WORD, "int_dict", inputs.mapping, "key", "keys", "in a dictionary",
        "for key in {name}", "key", "list({name})",
    ),
    Elements(
        "keys_by_value", BY_VALUE, "int_dict", inputs.mapping, "key", "keys", "of a dictionary",
        "for key, value in {name}.items()", "key", tested="value", whose="whose value",
    ),
    Elements(
        "entries", NUMBER, "int_dict", inputs.mapping, "entry", "entries", "of a dictionary",
        "for key, value in {name}.items()", "(key, value)", tested="value", whose="whose value",
        packed=DICTIONARY,
    ),
    Elements(
        "characters", CHARACTER, "text", inputs.text, "character", "characters", "in a text",
        "for char in {name}", "char", "list({name})", packed=TEXT, counted=True,
    ),
)  # fmt: skip
