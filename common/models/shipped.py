"""Where the demo's models lie: in the folder `models` beside the packages, in a clone as in an installed wheel.

Nothing else may live here.
"""

from dataclasses import dataclass
from pathlib import Path

from common.models.errors import CheckpointError

_MODELS = Path(__file__).resolve().parents[2] / "models"

HOW_TO_RESTORE = "reinstall Outrider from a wheel that holds them, or copy models/demo of its repository there"

DRAFTS = ("moa", "eagle", "medusa", "independent")
"""The folders of drafts beside a family's target, of which the first that is there is the default."""


@dataclass(frozen=True, slots=True)
class Family:
    """A folder with a target, and drafts that were trained for it."""

    folder: Path

    @property
    def target(self) -> Path:
        return self.folder / "target"

    @property
    def drafts(self) -> list[Path]:
        """Those that are there."""
        return [self.folder / name for name in DRAFTS if (self.folder / name).is_dir()]


FAMILIES = {"demo": Family(_MODELS / "demo")}


def shipped_family(name: str) -> Family | None:
    """The shipped family of that name, None for any other name. Raises CheckpointError where its files are absent."""
    family = FAMILIES.get(name)
    if family is not None and not (family.target.is_dir() and family.drafts):
        raise CheckpointError(f"the shipped '{name}' models are not in {family.folder}: {HOW_TO_RESTORE}")
    return family
