"""The categories by name, and seeded streams of their talks that obey the split.

What may live here: the table of categories and the rule that a held-out prompt is never trained on. It may not know
how a category makes its talks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from training.demo.split import is_held_out_prompt
from training.demo.talks import chat, reading, rewriting, stories, word_problems
from training.demo.talks.talk import Maker, Talk

CATEGORIES: dict[str, Maker] = {
    "math": word_problems.make,
    "reading": reading.make,
    "rewriting": rewriting.make,
    "stories": stories.make,
    "chat": chat.make,
}


def talks(category: str, seed: str) -> Iterator[Talk]:
    """An endless stream of one category, both sides of the split."""
    rng = random.Random(f"{category}:{seed}")
    while True:
        yield CATEGORIES[category](random.Random(rng.getrandbits(64)))


def training_talks(category: str, seed: str) -> Iterator[Talk]:
    """Talks in which no turn has a held-out prompt."""
    stream = talks(category, seed)
    return (talk for talk in stream if not any(is_held_out_prompt(ask) for ask, _ in talk.turns))


def held_out_talks(category: str, count: int, seed: str) -> list[Talk]:
    """`count` talks with prompts of their own that training never sees, each cut to its first exchange."""
    found: dict[str, Talk] = {}
    stream = talks(category, seed)
    while len(found) < count:
        talk = next(stream)
        if is_held_out_prompt(talk.prompt):
            found.setdefault(talk.prompt, Talk(talk.family, talk.turns[:1], talk.result))
    return list(found.values())
