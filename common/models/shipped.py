"""Finds the demo's models: in the folder `models` beside the packages, in a clone as in an installed wheel.

Nothing else may live here.
"""

from collections.abc import Sequence
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


def draft_checkpoint(draft: str, targets: Sequence[str]) -> str:
    """A draft model's directory or hub id; those that are shipped with one of the targets are known by their names.

    Raises CheckpointError for any other name where all targets are shipped, and where a target's files are absent.
    """
    families = [family for target in targets if (family := shipped_family(target))]
    if not families or "/" in draft or Path(draft).expanduser().is_dir():
        return draft
    named = {each.name: str(each) for family in families for each in family.drafts}
    if draft not in named and len(families) == len(targets):
        raise CheckpointError(
            f"'{draft}' is neither a directory nor a draft that is shipped with the target; those are "
            f"{', '.join(named)}"
        )
    return named.get(draft, draft)
