"""The training mixture: code, the other categories and public conversations, drawn fresh for every step.

What may live here: mixing shares, the seeded stream of conversations, and writing it as JSONL. It may not know
tokens or models.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from common.atomic import atomic_file
from training.demo.public_data import Turns
from training.demo.smalltalk import draw_turns
from training.demo.split import training_instances
from training.demo.talks.categories import CATEGORIES, training_talks
from training.writing import BEGUN_AGAIN, written

FOLLOW_UPS = 0.12
SYSTEM_SHARE = 0.05
SYSTEM_PROMPTS = ("You are a helpful assistant.", "You are the Outrider demo.", "You write short Python functions.")

TOKEN_SHARES = {"code": 28, "math": 8, "reading": 36, "rewriting": 18, "stories": 4, "chat": 6}
"""Percentages of the tokens. Reading is learnt last. Code that had a third of the tokens was forgotten in part when it
had a fifth, and math in part when it had 8% after 19, but is still above what is asked of it."""

MEAN_TOKENS = {"code": 175, "math": 115, "reading": 138, "rewriting": 110, "stories": 223, "chat": 110}
"""Of a conversation."""

CATEGORY_WEIGHTS = {category: share / MEAN_TOKENS[category] for category, share in TOKEN_SHARES.items()}
"""How often each category is drawn: shares of the conversations."""

SMALL_TALK_SHARE = 0.2
PUBLIC_SHARE = {"stories": 0.3, "chat": 0.35}

PUBLIC_WEIGHTS = {
    "stories": {"train/tinystories_10k.txt": 6.0, "train/tinystories_smallGPT.txt": 4.0},
    "chat": {
        "train/synthetic_persona_chat_valid.csv": 5.0,
        "train/alpaca_en_demo_gpt4.json": 3.0,
        "train/rasbt_instruction_data.json": 4.0,
    },
}


@dataclass(frozen=True)
class CorpusConversation:
    """User and assistant turns, with an optional system message before them."""

    turns: Turns
    system: str = ""
    category: str = "code"


@dataclass(frozen=True)
class Corpus:
    """The mixture for one seed. `public` maps file names to conversations and may be empty."""

    seed: int
    public: dict[str, list[Turns]] = field(default_factory=dict)

    def conversations(self, step: int) -> Iterator[CorpusConversation]:
        """An endless stream that depends on the seed and the step alone."""
        rng = random.Random(f"{self.seed}:mix:{step}")
        tasks = (((task.prompt, task.answer),) for task in training_instances(f"{self.seed}:tasks:{step}"))
        streams: dict[str, Iterator[Turns]] = {"code": tasks}
        for name in CATEGORIES:
            streams[name] = (talk.turns for talk in training_talks(name, f"{self.seed}:talks:{step}"))
        names, weights = list(CATEGORY_WEIGHTS), list(CATEGORY_WEIGHTS.values())
        while True:
            category = rng.choices(names, weights)[0]
            system = rng.choice(SYSTEM_PROMPTS) if rng.random() < SYSTEM_SHARE else ""
            turns = self.other_source(category, rng) or self.generated(category, names, weights, streams, rng)
            yield CorpusConversation(turns, system, category)

    def other_source(self, category: str, rng: random.Random) -> Turns:
        """Small talk or a public conversation; empty where the generators are chosen."""
        drawn = rng.random()
        if category == "chat" and drawn < SMALL_TALK_SHARE:
            return draw_turns(rng)
        if self.public and drawn > 1 - PUBLIC_SHARE.get(category, 0.0):
            files = PUBLIC_WEIGHTS[category]
            return rng.choice(self.public[rng.choices(list(files), list(files.values()))[0]])
        return ()

    def generated(
        self,
        category: str,
        names: list[str],
        weights: list[float],
        streams: dict[str, Iterator[Turns]],
        rng: random.Random,
    ) -> Turns:
        """What the category's generator says, at times after small talk and before exchanges of any category."""
        turns: list[tuple[str, str]] = list(draw_turns(rng)[:1]) if rng.random() < FOLLOW_UPS / 2 else []
        turns += next(streams[category])
        while rng.random() < FOLLOW_UPS and len(turns) < 4:
            turns += next(streams[rng.choices(names, weights)[0]])
        return tuple(turns)


def sample_texts(corpus: Corpus, count: int) -> Iterator[str]:
    """Every turn of `count` conversations, for training the tokenizer. Step -1 is never trained on."""
    stream = corpus.conversations(-1)
    for _ in range(count):
        for turn in next(stream).turns:
            yield from turn


def write_conversations(out: Path, seed: int, public: Mapping[str, list[Turns]], count: int) -> None:
    """Writes `count` conversations of the mixture, drawn by `seed`; the same call writes the same file, in a folder
    that is made if need be, whole or not at all."""
    with written(out, BEGUN_AGAIN):
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(out) as file:
            for conversation in islice(Corpus(seed, dict(public)).conversations(0), count):
                line = json.dumps({"messages": messages(conversation)}, ensure_ascii=False) + "\n"
                file.write(line.encode())


def messages(conversation: CorpusConversation) -> list[dict[str, str]]:
    """Roles and contents, the system message first where there is one."""
    said = [("system", conversation.system)] if conversation.system else []
    for ask, answer in conversation.turns:
        said += [("user", ask), ("assistant", answer)]
    return [{"role": role, "content": content} for role, content in said]
