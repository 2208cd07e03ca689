"""The fixed prompts that come with the models and that they are judged on: held out, of every category.

What may live here: which prompts are used to judge and to show the models. It may not know models or tokens.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from training.demo.registry import FIRST_HELD_OUT, FURTHER_HELD_OUT, HELD_OUT
from training.demo.render import Instance
from training.demo.split import held_out_family_instances, held_out_instances
from training.demo.talks.categories import CATEGORIES, held_out_talks, judged_sets
from training.demo.talks.talk import Talk

SHIPPED_SEED = "shipped"
JUDGED_SEED = "judged"
SHIPPED_INSTANCES, SHIPPED_FAMILY_INSTANCES, SHIPPED_TALKS = 200, 40, 40
HELD_OUT_FAMILIES = "code, held-out families"
FURTHER_HELD_OUT_FAMILIES = "code, further held-out families"

UNSEEN_QUESTIONS = (
    "Which of the seasons is the shortest?",
    "What do you like to do at the weekend?",
    "Tell me a story about a brave mouse.",
    "Can a fish climb a tree?",
    "What should I cook for dinner?",
    "Rewrite this sentence in the past tense: She walks to school.",
    "Give me a synonym for fast.",
    "I love hiking in the mountains.",
    "What is your favorite book?",
    "Tell me a short story about a lamp that cannot sleep.",
    "How do I make tea?",
    "What is a triangle?",
)


@dataclass(frozen=True)
class HeldOut:
    """One held-out prompt with the generator's own answer. Code has `tests`; other prompts whose answer a program can
    check have `result`, the texts that a right answer concludes with, and `wrong`, those that its conclusion may not
    hold."""

    category: str
    family: str
    prompt: str
    answer: str
    tests: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def held_out_prompts(name: str, count: int, seed: str) -> tuple[HeldOut, ...]:
    """`count` distinct prompts of code or of one set of talks, held out from training; a seed gives always the same."""
    if name == "code":
        return code_prompts(held_out_instances(seed), count)
    category = judged_sets()[name]
    return tuple(from_talk(category, talk) for talk in held_out_talks(name, count, seed))


def held_out_family_prompts(count: int, seed: str, names: Set[str] = HELD_OUT) -> tuple[HeldOut, ...]:
    """`count` distinct prompts of those of the coding families that training never sees."""
    return code_prompts(held_out_family_instances(seed, names), count)


def code_prompts(stream: Iterator[Instance], count: int) -> tuple[HeldOut, ...]:
    """`count` distinct prompts whose tests no constant passes."""
    found: dict[str, HeldOut] = {}
    while len(found) < count:
        item = next(stream)
        if not constant_passes(item.tests):
            found.setdefault(item.prompt, HeldOut("code", item.family, item.prompt, item.answer, tests=item.tests))
    return tuple(found.values())


def constant_passes(tests: Sequence[str]) -> bool:
    """Whether all tests expect the same, as where two conditions exclude each other."""
    first, *others = (ast.literal_eval(test.rpartition(") == ")[2]) for test in tests)
    return all(other == first for other in others)


def from_talk(category: str, talk: Talk) -> HeldOut:
    ask, answer = talk.turns[0]
    return HeldOut(category, talk.family, ask, answer, result=talk.result, wrong=talk.wrong)


def judged_prompts(count: int) -> dict[str, tuple[HeldOut, ...]]:
    """`count` prompts of each category, of exercises and of held-out families, by the name of the set."""
    sets = {"code": held_out_prompts("code", count, JUDGED_SEED)}
    sets[HELD_OUT_FAMILIES] = held_out_family_prompts(count, JUDGED_SEED, FIRST_HELD_OUT)
    sets[FURTHER_HELD_OUT_FAMILIES] = held_out_family_prompts(count, JUDGED_SEED, FURTHER_HELD_OUT)
    return sets | {name: held_out_prompts(name, count, JUDGED_SEED) for name in judged_sets()}


def write_prompts(file: Path) -> None:
    """Write the shipped prompts as JSON lines with the fields id, category, family, split, prompt, tests, result,
    wrong."""
    lines = records("instance", "held-out instance", held_out_prompts("code", SHIPPED_INSTANCES, SHIPPED_SEED))
    lines += records("family", "held-out family", held_out_family_prompts(SHIPPED_FAMILY_INSTANCES, SHIPPED_SEED))
    for name in CATEGORIES:
        lines += records(name, "held-out instance", held_out_prompts(name, SHIPPED_TALKS, SHIPPED_SEED))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def records(label: str, split: str, prompts: Iterable[HeldOut]) -> list[str]:
    return [
        json.dumps(
            {
                "id": f"{label}-{index:02d}",
                "category": item.category,
                "family": item.family,
                "split": split,
                "prompt": item.prompt,
                "tests": list(item.tests),
                "result": list(item.result),
                "wrong": list(item.wrong),
            },
            ensure_ascii=False,
        )
        for index, item in enumerate(prompts)
    ]
