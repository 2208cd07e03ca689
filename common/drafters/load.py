"""Makes a drafter from a bundle's directory: the one table of drafter kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.drafters.drafter import Drafter
from common.drafters.lookup import LookupDrafter
from common.protocol.errors import MisuseError

_SPARE_SLOTS = 512  # room for the tree beside a full context


@dataclass(frozen=True, slots=True)
class DraftSite:
    """Where a drafter's files lie, what it runs on, and the dimensions of its target."""

    directory: Path
    device: str
    dtype: str
    context: int  # tokens of the longest sequence
    vocab_size: int


def load_drafter(kind: str, site: DraftSite) -> Drafter:
    """Raises MisuseError for an unknown kind and CheckpointError for weights that cannot be loaded."""
    maker = _MAKERS.get(kind)
    if maker is None:
        raise MisuseError(f"this client knows no drafter '{kind}', only {', '.join(_MAKERS)}; upgrade it")
    return maker(site)


def _lookup(site: DraftSite) -> Drafter:
    return LookupDrafter()


def _independent(site: DraftSite) -> Drafter:
    from common.drafters.independent import IndependentDrafter
    from common.models.checkpoint import load_causal_lm
    from common.models.packed import PackedModel

    model = load_causal_lm(site.directory, device=site.device, dtype=site.dtype)
    return IndependentDrafter(PackedModel(model, site.context + _SPARE_SLOTS), site.vocab_size)


_MAKERS: dict[str, Callable[[DraftSite], Drafter]] = {"lookup": _lookup, "independent": _independent}
