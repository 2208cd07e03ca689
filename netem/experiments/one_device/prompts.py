"""Held-out prompts by category. Reads their file, and loads no model."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.protocol.errors import MisuseError

CATEGORIES = ("code", "math", "reading", "rewriting", "stories", "chat")
HELD_OUT_FAMILY = "held-out family"


@dataclass(frozen=True, slots=True)
class BenchmarkPrompt:
    """tests: assertions on an answer in code. result: what a right answer in words contains. wrong: what its conclusion
    may not contain. Each may be empty.

    split: what was held out from training, this prompt or all of its family.
    """

    category: str
    split: str
    text: str
    tests: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """`prompts` of each category, with answers of at most `tokens`."""

    prompts: int
    tokens: int


Prompts = Mapping[str, Sequence[BenchmarkPrompt]]
"""Prompts by category, in the order of `CATEGORIES`."""


def read_prompts(file: Path) -> list[BenchmarkPrompt]:
    """Raises MisuseError where the file cannot be read as prompts of categories."""
    try:
        entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [
            BenchmarkPrompt(
                category=str(entry["category"]),
                split=str(entry.get("split", "")),
                text=str(entry["prompt"]),
                tests=tuple(map(str, entry.get("tests", ()))),
                result=tuple(map(str, entry.get("result", ()))),
                wrong=tuple(map(str, entry.get("wrong", ()))),
            )
            for entry in entries
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise MisuseError(
            f"{file} cannot be read as prompts, one JSON object with 'prompt' and 'category' on each line; "
            "restore it from the release"
        ) from error


def choose(file: Path, count: int, seed: int) -> dict[str, list[BenchmarkPrompt]]:
    """`count` random held-out prompts of each category in the file, or all where it has fewer.

    Raises MisuseError where the file has none of them.
    """
    known = [prompt for prompt in read_prompts(file) if prompt.split != HELD_OUT_FAMILY]
    draw = random.Random(seed)
    by_category = {name: [prompt for prompt in known if prompt.category == name] for name in CATEGORIES}
    chosen = {name: draw.sample(held, min(count, len(held))) for name, held in by_category.items() if held}
    if not chosen:
        raise MisuseError(f"{file} has no prompt of the categories {', '.join(CATEGORIES)}")
    return chosen


def in_words(sizes: Mapping[str, int]) -> str:
    """The number of prompts of each category, for a remark."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
