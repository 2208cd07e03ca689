"""Keeps quantised copies of safetensors files, so that each is quantised once.

Copies are named by their source's checksum, so that another draft or target never meets them. It may not know bundles.
"""

from pathlib import Path

from common.weight_only.files import quantise_file
from common.weight_only.modes import WEIGHTS_SUFFIX

_FOLDER = "quantised"
_VERSION = 1
"""Of how weights are quantised: a copy of another version is not used."""


def keep_quantised(source: Path, digest: str, mode: str, cache: Path) -> Path:
    """The quantised copy of `source`, whose sha256 is `digest`; made now unless it was before. Raises OSError where it
    cannot be written, SafetensorError for a source that is broken."""
    kept = cache / _FOLDER / f"{digest}-{mode}-{_VERSION}{WEIGHTS_SUFFIX}"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        quantise_file(source, mode, kept)
    return kept
