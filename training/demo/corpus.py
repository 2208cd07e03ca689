"""The training mixture: generated tasks, small talk and public conversations, drawn fresh for every step.

What may live here: mixing shares and the seeded stream of conversations. It may not know tokens or models.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from training.demo.public_data import Turns
from training.demo.smalltalk import draw_turns
from training.demo.split import training_instances

FOLLOW_UPS = 0.12
SYSTEM_SHARE = 0.05
SYSTEM_PROMPTS = ("You are a helpful assistant.", "You are the Outrider demo.", "You write short Python functions.")

# Shares count conversations, not tokens: tasks are long and small talk is short.
PUBLIC_WEIGHTS = {
    "train/tinystories_10k.txt": 6.0,
    "train/tinystories_smallGPT.txt": 4.0,
    "train/synthetic_persona_chat_valid.csv": 5.0,
    "train/alpaca_en_demo_gpt4.json": 3.0,
    "train/rasbt_instruction_data.json": 4.0,
}


@dataclass(frozen=True)
class Conversation:
    """User and assistant turns, with an optional system message before them."""

    turns: Turns
    system: str = ""


@dataclass(frozen=True)
class Corpus:
    """The mixture for one seed. `public` maps file names to conversations and may be empty."""

    seed: int
    public: dict[str, list[Turns]] = field(default_factory=dict)
    task_share: float = 0.66
    talk_share: float = 0.12

    def conversations(self, step: int) -> Iterator[Conversation]:
        """An endless stream that depends on the seed and the step alone."""
        rng = random.Random(f"{self.seed}:mix:{step}")
        tasks = training_instances(f"{self.seed}:tasks:{step}")
        while True:
            system = rng.choice(SYSTEM_PROMPTS) if rng.random() < SYSTEM_SHARE else ""
            kind = rng.random()
            if kind < self.task_share or (not self.public and kind >= self.task_share + self.talk_share):
                turns: list[tuple[str, str]] = list(draw_turns(rng)[:1]) if rng.random() < FOLLOW_UPS / 2 else []
                instance = next(tasks)
                turns.append((instance.prompt, instance.answer))
                while rng.random() < FOLLOW_UPS and len(turns) < 4:
                    instance = next(tasks)
                    turns.append((instance.prompt, instance.answer))
                yield Conversation(tuple(turns), system)
            elif kind < self.task_share + self.talk_share:
                yield Conversation(draw_turns(rng), system)
            else:
                file = rng.choices(list(self.public), weights=[PUBLIC_WEIGHTS[name] for name in self.public])[0]
                yield Conversation(rng.choice(self.public[file]), system)


def sample_texts(corpus: Corpus, count: int) -> Iterator[str]:
    """Every turn of `count` conversations, for training the tokenizer. Step -1 is never trained on."""
    stream = corpus.conversations(-1)
    for _ in range(count):
        for turn in next(stream).turns:
            yield from turn
