"""The demo's models and prompts. Reads files, loads nothing."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from client.errors import DemoError
from common.draft_kinds import TRAINED_KINDS
from common.models import shipped

_CODE = "code"


@dataclass(frozen=True, slots=True)
class DemoModels:
    target: Path
    draft: Path
    prompts: Path


def find_family(models: Path | None) -> DemoModels:
    """The family in a folder, or the shipped one. Raises OutriderError if it is not whole."""
    if models is None:
        shipped.shipped_family("demo")  # fails if the release came without its models
        models = shipped.FAMILIES["demo"].folder
    found = shipped.ModelFolder(models)
    if not found.target.is_dir() or not found.drafts:
        kinds = ", ".join(kind.name for kind in TRAINED_KINDS)
        raise DemoError(f"{models} needs the folder target and one of {kinds}")
    return DemoModels(found.target, found.drafts[0], models / "prompts.jsonl")


def choose_prompts(file: Path, count: int, seed: int) -> list[str]:
    """`count` of the file's prompts for code, or all if it has fewer. Raises DemoError if it has none that can be
    read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.strip()]
        prompts = [str(record["prompt"]) for record in records if record.get("category", _CODE) == _CODE]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DemoError(f"{file} cannot be read as prompts; restore it from the release") from error
    if not prompts:
        raise DemoError(f"{file} holds no prompts; restore it from the release")
    return random.Random(seed).sample(prompts, min(count, len(prompts)))
