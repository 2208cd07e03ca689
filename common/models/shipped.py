"""Finds the demo's models: in the folder `models` beside the packages, in a clone as in an installed wheel.

Nothing else may live here.
"""

from dataclasses import dataclass
from pathlib import Path

from common.draft_kinds import TRAINED_KINDS
from common.models.errors import CheckpointError

_MODELS = Path(__file__).resolve().parents[2] / "models"

HOW_TO_RESTORE = "reinstall Outrider from a wheel that holds them, or copy models/demo of its repository there"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder with a target, and drafts that were trained for it."""

    folder: Path

    @property
    def target(self) -> Path:
        return self.folder / "target"

    @property
    def drafts(self) -> list[Path]:
        """Those that are there, in a folder named after their kind each; the first is the default."""
        return [self.folder / kind.name for kind in TRAINED_KINDS if (self.folder / kind.name).is_dir()]


FAMILIES = {"demo": ModelFolder(_MODELS / "demo")}


def shipped_family(name: str) -> ModelFolder | None:
    """The shipped family of that name, None for any other name. Raises CheckpointError where its files are absent."""
    family = FAMILIES.get(name)
    if family is not None and not (family.target.is_dir() and family.drafts):
        raise CheckpointError(f"the shipped '{name}' models are not in {family.folder}: {HOW_TO_RESTORE}")
    return family
