"""The models that the demo shows, and the prompts that they were made for. Reads files, loads nothing."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from client.errors import DemoError
from common.models.shipped import FAMILIES, shipped_family


@dataclass(frozen=True, slots=True)
class Family:
    target: Path
    draft: Path
    prompts: Path


def find_family(models: Path | None) -> Family:
    """The family in a folder, or the shipped one. Raises OutriderError where it is not whole."""
    if models is None:
        shipped_family("demo")  # refuses where the release came without its models
        models = FAMILIES["demo"].target.parent
    family = Family(models / "target", models / "draft", models / "prompts.jsonl")
    if not family.target.is_dir() or not family.draft.is_dir():
        raise DemoError(f"{models} needs the folders target and draft, each a checkpoint")
    return family


def choose_prompts(file: Path, count: int, seed: int) -> list[str]:
    """`count` prompts of the file, or all where it has fewer. Raises DemoError where it has none that can be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        prompts = [str(json.loads(line)["prompt"]) for line in lines if line.strip()]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DemoError(f"{file} cannot be read as prompts; restore it from the release") from error
    if not prompts:
        raise DemoError(f"{file} holds no prompts; restore it from the release")
    return random.Random(seed).sample(prompts, min(count, len(prompts)))
