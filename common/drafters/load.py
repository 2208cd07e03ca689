"""Makes a drafter from a bundle's directory: the one table of drafter kinds."""

from collections.abc import Callable
from pathlib import Path

from common.drafters.drafter import Drafter
from common.drafters.lookup import LookupDrafter
from common.protocol.errors import MisuseError

_SPARE_SLOTS = 512  # room for the tree beside a full context


def load_drafter(kind: str, directory: Path, *, device: str, dtype: str, context: int) -> Drafter:
    """A drafter for sequences of at most `context` tokens.

    Raises MisuseError for an unknown kind and CheckpointError for weights that cannot be loaded.
    """
    maker = _MAKERS.get(kind)
    if maker is None:
        raise MisuseError(f"this client knows no drafter '{kind}', only {', '.join(_MAKERS)}; upgrade it")
    return maker(directory, device, dtype, context)


def _lookup(directory: Path, device: str, dtype: str, context: int) -> Drafter:
    return LookupDrafter()


def _independent(directory: Path, device: str, dtype: str, context: int) -> Drafter:
    from common.drafters.independent import IndependentDrafter
    from common.models.checkpoint import load_causal_lm
    from common.models.packed import PackedModel

    model = load_causal_lm(str(directory), device=device, dtype=dtype)
    return IndependentDrafter(PackedModel(model, context + _SPARE_SLOTS))


_MAKERS: dict[str, Callable[[Path, str, str, int], Drafter]] = {"lookup": _lookup, "independent": _independent}
