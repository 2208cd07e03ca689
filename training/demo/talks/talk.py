"""The record that every category yields, and the two ways to choose: by chance, and by what the prompt says.

What may live here: what all categories share. It may not know any category, tokenizer or model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

Turn = tuple[str, str]
Option = TypeVar("Option")


@dataclass(frozen=True)
class Talk:
    """One conversation of a category.

    `result` holds the texts that a right answer to the first turn must contain, where a program can check that, and is
    empty elsewhere.
    """

    family: str
    turns: tuple[Turn, ...]
    result: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        return self.turns[0][0]


Maker = Callable[[Random], Talk]


def by(options: Sequence[Option], *words: object) -> Option:
    """The option that `words` decide. Answers vary by this, not by chance: a model that sees the words can know."""
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
