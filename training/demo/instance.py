"""What one coding task is: sketches made by families, and the seeded draw they take their parts from.

What may live here: the data shapes of a task and the random choices every family shares (names, parameters,
constants, test inputs). It may not know any family, any answer layout, or torch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FRESH_CASES = 8

PLURALS = {
    "numbers": "number",
    "values": "value",
    "nums": "num",
    "scores": "score",
    "amounts": "amount",
    "readings": "reading",
    "items": "item",
    "data": "entry",
    "words": "word",
    "names": "name",
    "strings": "string",
    "tokens": "token",
    "labels": "label",
    "tags": "tag",
    "points": "point",
    "sizes": "size",
    "costs": "cost",
    "terms": "term",
    "animals": "animal",
    "titles": "title",
    "rows": "row",
    "grid": "row",
    "matrix": "row",
    "table": "row",
    "board": "row",
}

PARAMETER_NAMES = {
    "int_list": (
        "numbers",
        "values",
        "nums",
        "scores",
        "amounts",
        "readings",
        "items",
        "data",
        "points",
        "sizes",
        "costs",
    ),
    "word_list": ("words", "names", "strings", "tokens", "labels", "tags", "items", "terms", "animals", "titles"),
    "matrix": ("matrix", "grid", "table", "board", "rows"),
    "int": ("number", "value", "num", "n", "x", "amount", "score", "m", "given"),
    "text": ("text", "string", "word", "sentence", "line", "message", "s", "phrase", "note", "title"),
    "int_dict": ("mapping", "scores", "prices", "stock", "counts", "ages", "table", "inventory", "totals", "register"),
}

PARAMETER_TYPES = {
    "int_list": "list[int]",
    "word_list": "list[str]",
    "matrix": "list[list[int]]",
    "int": "int",
    "text": "str",
    "int_dict": "dict[str, int]",
}

PARAMETER_NOTES = {
    "int_list": "A list of integers.",
    "word_list": "A list of strings.",
    "matrix": "A list of rows of integers.",
    "int": "The input number.",
    "text": "The input text.",
    "int_dict": "A dictionary from names to integers.",
}

NAME_NOUNS = (
    "alpha", "basket", "bridge", "cedar", "cloud", "comet", "delta", "ember", "falcon", "garden", "harbor", "island",
    "jungle", "kettle", "ladder", "meadow", "needle", "ocean", "pepper", "quartz", "river", "saddle", "tiger",
    "umbrella", "valley", "window", "yellow", "zebra", "report", "batch", "series", "record", "input", "result",
    "group", "sample", "panel", "signal", "market", "sensor", "helper", "task", "step", "apple", "forest", "engine",
    "pocket",
    "silver", "mirror",
)  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One function parameter: its name, its annotation and its line in the docstring."""

    name: str
    annotation: str
    note: str

    @property
    def each(self) -> str:
        """The name a loop gives to one element of this parameter."""
        return PLURALS.get(self.name, "item")


@dataclass(frozen=True)
class Inputs:
    """Arguments for one function: `examples` to show one of, `fixed` to test always, `fresh` to draw more tests."""

    examples: tuple[Any, ...]
    fixed: tuple[Any, ...]
    fresh: Callable[[], Any]


@dataclass(frozen=True)
class Wording:
    """The wording of a family: `stems` of its name (the plain one first), the task sentence, the result and how it
    works.

    `verb` and `rest` form the task sentence ("count" + "the even numbers in a list"). A family writes slots such as
    `{keep.slug}` in any of them.
    """

    stems: tuple[str, ...]
    verb: str
    rest: str
    result: str
    how: str

    def filled(self, slots: Mapping[str, Any]) -> Wording:
        stems = tuple(stem.format_map(slots) for stem in self.stems)
        texts = (text.format_map(slots) for text in (self.verb, self.rest, self.result, self.how))
        return Wording(stems, *texts)


@dataclass(frozen=True)
class Sketch:
    """A task before layout: what to say, what to code, and what to call it with.

    `body` holds unindented source lines; `example` is the argument shown to the reader and `cases` draws those of
    the tests.
    """

    name: str
    parameter: Parameter
    returns: str
    wording: Wording
    body: tuple[str, ...]
    example: Any
    cases: Callable[[], tuple[Any, ...]]


class InstanceDraw:
    """Seeded choices of one instance. `plain` instances use the default names, so a prompt may leave them out."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.plain = rng.random() < 0.25
        self.constants: list[int] = []
        self.letters: list[str] = []

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.random() * len(options))]

    def name(self, *stems: str) -> str:
        if self.plain:
            return stems[0]
        stem = str(self.pick(stems))
        form = int(self.rng.random() * 4)
        if form == 0:
            return stem
        if form == 1:
            return f"{stem}_{self.pick(NAME_NOUNS)}"
        if form == 2:
            return f"{self.pick(NAME_NOUNS)}_{stem}"
        return f"{stem.split('_')[0]}_{self.pick(NAME_NOUNS)}"

    def parameter(self, kind: str) -> Parameter:
        names = PARAMETER_NAMES[kind]
        name = names[0] if self.plain else self.pick(names)
        return Parameter(name, PARAMETER_TYPES[kind], PARAMETER_NOTES[kind])

    def constant(self, low: int, high: int) -> int:
        value = self.rng.randint(low, high)
        self.constants.append(value)
        return value

    def letter(self) -> str:
        value = str(self.pick("abcdegilmnoprst"))
        self.letters.append(value)
        return value


def sketch(
    draw: InstanceDraw, parameter: Parameter, inputs: Inputs, wording: Wording, returns: str, body: tuple[str, ...]
) -> Sketch:
    """A sketch with a drawn name (from the stems), a drawn example and `FRESH_CASES` drawn cases."""
    name = draw.name(*wording.stems)
    example = draw.pick(inputs.examples)
    return Sketch(name, parameter, returns, wording, body, example, lambda: drawn_cases(inputs))


def drawn_cases(inputs: Inputs) -> tuple[Any, ...]:
    return (*inputs.fixed, *(inputs.fresh() for _ in range(FRESH_CASES)))
