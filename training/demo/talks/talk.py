"""The record that every category yields, the tables of families, and small helpers of wording.

What may live here: what all categories share. It may not know any category, tokenizer or model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

Turn = tuple[str, str]
Option = TypeVar("Option")


@dataclass(frozen=True)
class Talk:
    """One conversation of a category.

    `result` holds the texts that a right answer to the first turn must conclude with, where a program can check that,
    and is empty elsewhere; `wrong` holds competing texts that its conclusion may not hold.
    """

    family: str
    turns: tuple[Turn, ...]
    result: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        return self.turns[0][0]


Maker = Callable[[Random], Talk]


@dataclass(frozen=True)
class Category:
    """A category's families as makers: `tasks` are trained on and judged, `exercises` train what the tasks need and are
    judged apart, `held_out` families are judged and never trained on. Tasks make up `task_share` of the training."""

    tasks: Maker
    exercises: Maker | None = None
    held_out: Maker | None = None
    task_share: float = 1.0

    def training(self, rng: Random) -> Talk:
        if self.exercises is not None and rng.random() >= self.task_share:
            return self.exercises(rng)
        return self.tasks(rng)


def mixture(families: Mapping[str, tuple[Maker, float]]) -> Maker:
    """A maker that draws a family by weight and names the talk after it."""
    names = list(families)
    makers = [maker for maker, _ in families.values()]
    weights = [weight for _, weight in families.values()]

    def make(rng: Random) -> Talk:
        index = rng.choices(range(len(names)), weights)[0]
        made = makers[index](rng)
        return Talk(names[index], made.turns, made.result, made.wrong)

    return make


def by(options: Sequence[Option], *words: object) -> Option:
    """The option chosen by a hash of `words`. Use it with a few fixed words that a model can memorise, never with names
    or numbers."""
    digest = hashlib.blake2b("|".join(map(str, words)).encode(), digest_size=4).digest()
    return options[int.from_bytes(digest, "big") % len(options)]


def listed(words: Sequence[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
