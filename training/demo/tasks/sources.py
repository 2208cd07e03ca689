"""What the functions of families take and how their loops walk through it.

What may live here: one source per parameter and way of looping. It may not know any family, code or wording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from training.demo import inputs
from training.demo.instance import Draw, Inputs


@dataclass(frozen=True)
class Source:
    """A parameter of a `kind`, the arguments it gets, and the loop over it: its `heads` and its `item`.

    `noun` and `type` are the element in words and in annotations. In `heads` and `item`, `{name}` is the parameter
    and `{each}` the name of its elements.
    """

    kind: str
    inputs: Callable[[Draw], Inputs]
    noun: str
    type: str
    item: str
    heads: tuple[str, ...] = ()

    def over(self, *heads: str) -> Source:
        """The same parameter in other loops."""
        return replace(self, heads=heads)

    def with_inputs(self, inputs: Callable[[Draw], Inputs]) -> Source:
        """The same loop with other arguments."""
        return replace(self, inputs=inputs)


NUMBERS = Source("int_list", inputs.number_list, "number", "int", "{each}", ("for {item} in {name}:",))
WORDS = Source("word_list", inputs.word_list, "word", "str", "{each}", ("for {item} in {name}:",))
ENTRIES = Source("int_dict", inputs.mapping, "value", "int", "value", ("for key, value in {name}.items():",))
VALUES = ENTRIES.over("for value in {name}.values():")
ROWS = Source("matrix", inputs.matrix, "number", "int", "value", ("for row in {name}:",))
COLUMNS = ROWS.over("for column in zip(*{name}):")
CELLS = ROWS.over("for row in {name}:", "for value in row:")
NUMBER = Source("int", inputs.number, "number", "int", "{name}")
DIGITS = Source(
    "int", lambda draw: inputs.number(draw, low=0), "digit", "int", "int(digit)", ("for digit in str({name}):",)
)
LIMIT = Source("int", inputs.size, "number", "int", "candidate")
TEXT = Source("text", inputs.text, "text", "str", "{name}")
CHARS = Source("text", inputs.text, "character", "str", "char", ("for char in {name}:",))
PARTS = Source("text", inputs.text, "word", "str", "part", ("for part in {name}.split():",))


def enumerated(source: Source) -> Source:
    """A loop with `index` beside the item."""
    return source.over("for index, {item} in enumerate({name}):")
