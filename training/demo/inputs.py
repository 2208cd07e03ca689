"""The arguments of task functions, by kind of parameter: examples, fixed cases and fresh ones.

What may live here: values of each kind, drawn so that they fall on both sides of a task's conditions. It may not know
what any function does with them.
"""

from __future__ import annotations

from training.demo.instance import Inputs, InstanceDraw

WORDS = (
    "apple", "bird", "Cat", "dog", "Echo", "fig", "grape", "Hat", "ice", "jam", "kite", "Lemon", "moon", "net", "oak",
    "pear", "queen", "Rose", "sun", "tree", "urn", "Vine", "wolf", "yak", "zoo", "banana", "level", "noon", "a", "Bob",
    "stone", "radar", "cherry", "at", "is", "orange", "window", "PC", "UP", "eye",
)  # fmt: skip

SENTENCES = (
    "the quick brown fox", "Hello World", "a b c", "level", "", "one two two three", "Never odd or even", "banana",
    "Good morning to you", "x", "tomato soup is red", "AAA bbb", "end  of line", "Racecar", "see the sea",
)  # fmt: skip


def number_list(draw: InstanceDraw, *edges: list[int]) -> Inputs:
    """Lists of integers: the empty one, `edges`, single numbers and longer ones."""
    alone = ([number] for number in telling_numbers(draw))
    examples = ([3, 8, 12, 5], [1, 4, 9, 16], [7, 2, 10, 6])
    return Inputs(examples, ([], *edges, *alone), lambda: numbers(draw, draw.rng.randint(3, 8)))


def word_list(draw: InstanceDraw, empty: bool = True) -> Inputs:
    """Lists of strings: single words, longer ones and, if `empty`, the empty one."""
    alone = tuple([word] for word in telling_words(draw))
    examples = (["apple", "fig", "Pear"], ["red", "GREEN", "blue"], ["one", "three", "ten"])
    return Inputs(examples, ([], *alone) if empty else alone, lambda: words(draw))


def text(draw: InstanceDraw) -> Inputs:
    """Short texts: the empty one, single words and sentences."""
    examples = ("hello world", "Good morning", "banana split")
    return Inputs(examples, ("", *telling_words(draw)), lambda: sentence(draw))


def pieces(draw: InstanceDraw) -> Inputs:
    """Texts with commas between their parts: empty ones, single words and more."""
    examples = ("red,GREEN,blue", "apple,fig,Pear", "one,three,ten")
    return Inputs(examples, ("", ",", *telling_words(draw)), lambda: ",".join(words(draw)))


def mapping(draw: InstanceDraw) -> Inputs:
    """Dictionaries from names to integers: the empty one, single entries and more."""
    alone = ({"key": number} for number in telling_numbers(draw))
    examples = ({"ann": 3, "bob": 8}, {"tea": 4, "milk": 12}, {"red": 5, "blue": 10})
    return Inputs(examples, ({}, *alone), lambda: entries(draw))


def matrix(draw: InstanceDraw, square: bool = False) -> Inputs:
    """Rectangular matrices with at least one cell; only square ones if `square`."""
    alone = tuple([[number]] for number in telling_numbers(draw))
    examples = ([[1, 2], [3, 4]], [[5, 8], [2, 7]], [[9, 4], [6, 1]])
    return Inputs(examples, alone, lambda: rows(draw, square))


def number(draw: InstanceDraw, low: int = -15) -> Inputs:
    """Integers not below `low`."""
    near = tuple(value for value in telling_numbers(draw) if value >= low)
    return Inputs((7, 12, 20), near, lambda: draw.rng.randint(low, 40))


def size(draw: InstanceDraw) -> Inputs:
    """Small non-negative integers, for limits and lengths."""
    return Inputs((5, 8, 12), (0,), lambda: draw.rng.randint(1, 30))


def telling_numbers(draw: InstanceDraw) -> list[int]:
    """Numbers on either side of every drawn constant, and a few others: one alone tells conditions apart."""
    near = {constant + step for constant in draw.constants for step in (-1, 0, 1)}
    return sorted(near | {-4, -3, 0, 7, 30})


def telling_words(draw: InstanceDraw) -> list[str]:
    """Words of all short lengths and cases, and words with every drawn letter at their start, middle and end."""
    marked = [word for letter in draw.letters for word in (f"{letter}o", f"U{letter}u", f"Be{letter}")]
    return ["a", "AB", "sky", "Four", "FIVES", "window", "Octopus", *marked]


def numbers(draw: InstanceDraw, length: int) -> list[int]:
    """Integers with every drawn constant and its neighbours among the likely values."""
    near = [constant + step for constant in draw.constants for step in (-1, 0, 1)]
    return [draw.pick(near) if near and draw.rng.random() < 0.45 else draw.rng.randint(-12, 25) for _ in range(length)]


def words(draw: InstanceDraw) -> list[str]:
    """Three to seven words, and two more for every drawn letter: one that starts and one that ends with it."""
    chosen = [str(draw.pick(WORDS)) for _ in range(draw.rng.randint(3, 7))]
    for letter in draw.letters:
        chosen += [letter + str(draw.pick(WORDS)), str(draw.pick(WORDS)) + letter]
    return chosen


def rows(draw: InstanceDraw, square: bool) -> list[list[int]]:
    height = draw.rng.randint(2, 4)
    width = height if square else draw.rng.randint(2, 4)
    return [numbers(draw, width) for _ in range(height)]


def entries(draw: InstanceDraw) -> dict[str, int]:
    values = numbers(draw, draw.rng.randint(2, 6))
    keys = draw.rng.sample([word.lower() for word in WORDS], len(values))
    return dict(zip(keys, values, strict=True))


def sentence(draw: InstanceDraw) -> str:
    base = str(draw.pick(SENTENCES))
    return base + "".join(f" {letter}{draw.pick(WORDS)}{letter}" for letter in draw.letters)
