"""The categories by name, and seeded streams of their talks that obey the split.

What may live here: the table of categories and the rule that held-out prompts and families are never trained on. It
may not know how a category makes its talks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from training.demo.split import is_held_out_prompt
from training.demo.talks import chat, reading, rewriting, stories, word_problems
from training.demo.talks.talk import Category, Maker, Talk

CATEGORIES: dict[str, Category] = {
    "math": word_problems.CATEGORY,
    "reading": reading.CATEGORY,
    "rewriting": rewriting.CATEGORY,
    "stories": Category(stories.make),
    "chat": Category(chat.make),
}
# Judged apart from the tasks of their category; only held-out families are never trained on.
EXERCISES = {f"{name}, exercises": kind.exercises for name, kind in CATEGORIES.items() if kind.exercises}
HELD_OUT_FAMILIES = {f"{name}, held-out families": kind.held_out for name, kind in CATEGORIES.items() if kind.held_out}


def talks(category: str, seed: str) -> Iterator[Talk]:
    """An endless stream of what one category trains on, both sides of the split of prompts."""
    return stream(CATEGORIES[category].training, f"{category}:{seed}")


def stream(make: Maker, seed: str) -> Iterator[Talk]:
    rng = random.Random(seed)
    while True:
        yield make(random.Random(rng.getrandbits(64)))


def training_talks(category: str, seed: str) -> Iterator[Talk]:
    """Talks in which no turn has a held-out prompt."""
    return (talk for talk in talks(category, seed) if not any(is_held_out_prompt(ask) for ask, _ in talk.turns))


def judged_sets() -> dict[str, str]:
    """The sets of talks that a target is judged on, each with its category."""
    names = [*CATEGORIES, *EXERCISES, *HELD_OUT_FAMILIES]
    return {name: name.partition(", ")[0] for name in names}


def held_out_talks(name: str, count: int, seed: str) -> list[Talk]:
    """`count` talks of a judged set with prompts of their own that training never sees, each cut to its first
    exchange. A category's own set holds its tasks and no exercises."""
    whole = HELD_OUT_FAMILIES.get(name)
    make = whole or EXERCISES.get(name) or CATEGORIES[name].tasks
    found: dict[str, Talk] = {}
    drawn = stream(make, f"{name}:{seed}")
    while len(found) < count:
        talk = next(drawn)
        if whole or is_held_out_prompt(talk.prompt):
            found.setdefault(talk.prompt, Talk(talk.family, talk.turns[:1], talk.result, talk.wrong))
    return list(found.values())
