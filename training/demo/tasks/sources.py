"""The parameters that the functions of families take, and how their loops iterate over them.

What may live here: one source per parameter and way of looping. It may not know any family, code or wording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from training.demo import inputs
from training.demo.instance import Inputs, InstanceDraw


@dataclass(frozen=True)
class LoopSource:
    """A parameter of a `kind`, the arguments it gets, and the loop over it: its `heads` and its `item`.

    `noun` and `type` are the element in words and in annotations. In `heads` and `item`, `{name}` is the parameter
    and `{each}` the name of its elements.
    """

    kind: str
    inputs: Callable[[InstanceDraw], Inputs]
    noun: str
    type: str
    item: str
    heads: tuple[str, ...] = ()

    def over(self, *heads: str) -> LoopSource:
        """The same parameter in other loops."""
        return replace(self, heads=heads)

    def with_inputs(self, inputs: Callable[[InstanceDraw], Inputs]) -> LoopSource:
        """The same loop with other arguments."""
        return replace(self, inputs=inputs)


NUMBERS = LoopSource("int_list", inputs.number_list, "number", "int", "{each}", ("for {item} in {name}:",))
WORDS = LoopSource("word_list", inputs.word_list, "word", "str", "{each}", ("for {item} in {name}:",))
ENTRIES = LoopSource("int_dict", inputs.mapping, "value", "int", "value", ("for key, value in {name}.items():",))
VALUES = ENTRIES.over("for value in {name}.values():")
ROWS = LoopSource("matrix", inputs.matrix, "number", "int", "value", ("for row in {name}:",))
COLUMNS = ROWS.over("for column in zip(*{name}):")
NUMBER = LoopSource("int", inputs.number, "number", "int", "{name}")
LIMIT = LoopSource("int", inputs.size, "number", "int", "candidate")
TEXT = LoopSource("text", inputs.text, "text", "str", "{name}")
PARTS = LoopSource("text", inputs.text, "word", "str", "part", ("for part in {name}.split():",))
