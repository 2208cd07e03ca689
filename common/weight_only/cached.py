"""Keeps quantised copies of safetensors files, so that each is quantised once.

Copies are named by their source's checksum, so that another draft or target never meets them. It may not know bundles.
"""

import hashlib
from pathlib import Path

from safetensors import SafetensorError

from common.atomic import remove_abandoned
from common.weight_only.modes import WEIGHTS_SUFFIX

FOLDER = "quantised"
"""Of a cache, with all copies."""

_VERSION = 1
"""Of how weights are quantised: a copy of another version is not used."""


def kept_file(digest: str, mode: str, cache: Path) -> Path:
    """Where the quantised copy of a file with this sha256 is kept, if it is."""
    return cache / FOLDER / f"{digest}-{mode}-{_VERSION}{WEIGHTS_SUFFIX}"


def keep_quantised(source: Path, digest: str, mode: str, cache: Path) -> Path:
    """The quantised copy of `source`, whose sha256 is `digest`; made now unless it was before. Raises OSError where it
    cannot be written, SafetensorError for a source that is broken or has another checksum, MisuseError for one that is
    stored in few bits already."""
    kept = kept_file(digest, mode, cache)
    remove_abandoned(kept)
    if not kept.is_file():
        from common.weight_only.files import quantise_file  # with torch

        with source.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise SafetensorError(f"{source} is not what its checksum says")
        kept.parent.mkdir(parents=True, exist_ok=True)
        quantise_file(source, mode, kept)
    return kept
