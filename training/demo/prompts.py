"""The fixed prompts that come with the models: held-out instances, held-out families and small talk.

What may live here: which prompts are used to judge and to show the models. It may not know models or tokens.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.demo.render import Instance
from training.demo.smalltalk import draw_turns
from training.demo.split import held_out_family_instances, held_out_instances

SHIPPED_SEED = "shipped"
JUDGED_SEED = "judged"
SHIPPED_INSTANCES, SHIPPED_FAMILY_INSTANCES = 60, 20

UNSEEN_QUESTIONS = (
    "Hello, who are you?",
    "What do you like to do at the weekend?",
    "Tell me a story about a brave mouse.",
    "Do you have any pets?",
    "What should I cook for dinner?",
    "Rewrite this sentence in the past tense: She walks to school.",
    "Give me a synonym for fast.",
    "I love hiking in the mountains.",
    "What is your favorite book?",
    "Tell me a short story about Mia.",
    "How do I make tea?",
    "What is a triangle?",
)


@dataclass(frozen=True)
class JudgedPrompts:
    """What a model is judged on; none of the coding prompts was trained on."""

    instances: tuple[Instance, ...]
    families: tuple[Instance, ...]
    talk: tuple[str, ...]


def judged_prompts(count: int) -> JudgedPrompts:
    """`count` instances of each coding split and about a quarter as many of small talk and unseen questions."""
    rng = random.Random(JUDGED_SEED)
    drawn = {draw_turns(rng)[0][0] for _ in range(count // 4)}
    return JudgedPrompts(
        tuple(distinct(held_out_instances(JUDGED_SEED), count)),
        tuple(distinct(held_out_family_instances(JUDGED_SEED), count)),
        (*UNSEEN_QUESTIONS, *sorted(drawn)),
    )


def distinct(stream: Iterator[Instance], count: int) -> Iterator[Instance]:
    """The first `count` instances with prompts of their own."""
    seen: set[str] = set()

    def fresh(instance: Instance) -> bool:
        known = instance.prompt in seen
        seen.add(instance.prompt)
        return not known

    return itertools.islice(filter(fresh, stream), count)


def write_prompts(file: Path) -> None:
    """Write the shipped prompts as JSON lines with the fields id, family, split, prompt, tests."""
    shipped = [
        ("held-out instance", distinct(held_out_instances(SHIPPED_SEED), SHIPPED_INSTANCES)),
        ("held-out family", distinct(held_out_family_instances(SHIPPED_SEED), SHIPPED_FAMILY_INSTANCES)),
    ]
    lines = [
        json.dumps(
            {
                "id": f"{split.split()[-1]}-{index:02d}",
                "family": instance.family,
                "split": split,
                "prompt": instance.prompt,
                "tests": list(instance.tests),
            },
            ensure_ascii=False,
        )
        for split, instances in shipped
        for index, instance in enumerate(instances)
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
