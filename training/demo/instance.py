"""What one coding task is: sketches made by families, and the seeded draw they take their parts from.

What may live here: the data shapes of a task and the random choices every family shares (names, parameters,
constants, test inputs). It may not know any family, any answer layout, or torch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
    "rows": "row",
    "grid": "row",
    "matrix": "row",
    "table": "row",
    "board": "row",
}

PARAMETER_NAMES = {
    "int_list": ("numbers", "values", "nums", "scores", "amounts", "readings", "items", "data"),
    "word_list": ("words", "names", "strings", "tokens", "labels", "tags", "items"),
    "matrix": ("matrix", "grid", "table", "board", "rows"),
    "int": ("number", "value", "num", "n", "x", "amount", "score"),
    "text": ("text", "string", "word", "sentence", "line", "message", "s"),
    "int_dict": ("mapping", "scores", "prices", "stock", "counts", "ages", "table"),
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
    "group", "sample", "panel", "signal", "market", "sensor",
)  # fmt: skip

WORDS = (
    "apple", "bird", "Cat", "dog", "Echo", "fig", "grape", "Hat", "ice", "jam", "kite", "Lemon", "moon", "net", "oak",
    "pear", "queen", "Rose", "sun", "tree", "urn", "Vine", "wolf", "yak", "zoo", "banana", "level", "noon", "a", "Bob",
    "stone", "radar", "cherry", "at", "is", "orange", "window", "PC", "UP", "eye",
)  # fmt: skip

SENTENCES = (
    "the quick brown fox", "Hello World", "a b c", "level", "", "one two two three", "Never odd or even", "banana",
    "Good morning to you", "x", "tomato soup is red", "AAA bbb", "end  of line", "Racecar", "see the sea",
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
class Sketch:
    """A task before layout: what to say, what to code, and what to call it with.

    `verb` and `rest` form the task sentence ("count" + "the even numbers in a list"); `body` holds unindented
    source lines; `cases` holds argument tuples for the tests; `example` is one argument tuple shown to the reader.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    verb: str
    rest: str
    result: str
    body: tuple[str, ...]
    how: str
    example: tuple[Any, ...]
    cases: tuple[tuple[Any, ...], ...]


class Draw:
    """Seeded choices of one instance. `plain` instances use the default names, so a prompt may leave them out."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.plain = rng.random() < 0.25
        self.constants: list[int] = []
        self.letters: list[str] = []

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.rng.randrange(len(options))]

    def name(self, *stems: str) -> str:
        if self.plain:
            return stems[0]
        stem = str(self.pick(stems))
        form = self.rng.randrange(4)
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

    def int_list(self, length: int | None = None) -> list[int]:
        """Integers for one test, with every drawn constant and its neighbours among the likely values."""
        near = [constant + step for constant in self.constants for step in (-1, 0, 1)]
        size = self.rng.randint(3, 8) if length is None else length
        return [
            self.pick(near) if near and self.rng.random() < 0.45 else self.rng.randint(-12, 25) for _ in range(size)
        ]

    def word_list(self, length: int | None = None) -> list[str]:
        """Words for one test; drawn letters appear at word starts, ends and middles."""
        size = self.rng.randint(3, 7) if length is None else length
        words = [str(self.pick(WORDS)) for _ in range(size)]
        for letter in self.letters:
            words += [letter + str(self.pick(WORDS)), str(self.pick(WORDS)) + letter]
        return words

    def matrix(self, square: bool = False) -> list[list[int]]:
        height = self.rng.randint(2, 4)
        width = height if square else self.rng.randint(2, 4)
        return [self.int_list(width) for _ in range(height)]

    def int_dict(self) -> dict[str, int]:
        values = self.int_list(self.rng.randint(2, 6))
        keys = self.rng.sample([word.lower() for word in WORDS], len(values))
        return dict(zip(keys, values, strict=True))

    def sentence(self) -> str:
        base = str(self.pick(SENTENCES))
        return base + "".join(f" {letter}{self.pick(WORDS)}{letter}" for letter in self.letters)

    def telling_numbers(self) -> list[int]:
        """Numbers on either side of every drawn constant, and a few others: one alone tells conditions apart."""
        near = {constant + step for constant in self.constants for step in (-1, 0, 1)}
        return sorted(near | {-4, -3, 0, 7, 30})

    def telling_words(self) -> list[str]:
        """Words of all short lengths and cases, and words with every drawn letter at their start, middle and end."""
        marked = [word for letter in self.letters for word in (f"{letter}o", f"U{letter}u", f"Be{letter}")]
        return ["a", "AB", "sky", "Four", "FIVES", "window", "Octopus", *marked]

    def cases(self, make: Callable[[], tuple[Any, ...]], extra: Sequence[tuple[Any, ...]] = ()) -> tuple[Any, ...]:
        return (*extra, *(make() for _ in range(5)))
