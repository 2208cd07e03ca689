"""Where the models that come with this repository lie. Nothing else may live here."""

from dataclasses import dataclass
from pathlib import Path

from common.models.errors import CheckpointError

_MODELS = Path(__file__).resolve().parents[2] / "models"


@dataclass(frozen=True, slots=True)
class Family:
    """A target and the folders of drafts that were trained for it, of which the first is the default."""

    target: Path
    folders: tuple[Path, ...]

    @property
    def drafts(self) -> list[Path]:
        """Those that this release brings."""
        return [folder for folder in self.folders if folder.is_dir()]


_DEMO = _MODELS / "demo"

FAMILIES = {"demo": Family(_DEMO / "target", tuple(_DEMO / name for name in ("draft", "moa", "eagle", "medusa")))}


def shipped_family(name: str) -> Family | None:
    """The shipped family of that name, None for any other name. Raises CheckpointError where its files are absent."""
    family = FAMILIES.get(name)
    if family is not None and not (family.target.is_dir() and family.drafts):
        raise CheckpointError(
            f"the shipped '{name}' models are not in {_MODELS}; clone the repository with its models."
        )
    return family
