"""Where the models that come with this repository lie. Nothing else may live here."""

from dataclasses import dataclass
from pathlib import Path

from common.models.errors import CheckpointError

_MODELS = Path(__file__).resolve().parents[2] / "models"


@dataclass(frozen=True, slots=True)
class Family:
    """A target and the draft that was trained for it."""

    target: Path
    draft: Path


FAMILIES = {"demo": Family(_MODELS / "demo" / "target", _MODELS / "demo" / "draft")}


def shipped_family(name: str) -> Family | None:
    """The shipped family of that name, None for any other name. Raises CheckpointError where its files are absent."""
    family = FAMILIES.get(name)
    if family is not None and not (family.target.is_dir() and family.draft.is_dir()):
        raise CheckpointError(
            f"the shipped '{name}' models are not in {_MODELS}; clone the repository with its models."
        )
    return family
