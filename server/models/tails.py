"""Tails: the last layers of a target, which drafts with target-layer inference run. Written once, kept for later runs.

The tail of a large target has gigabytes. It may not know draft models or bundles.
"""

from pathlib import Path

from common.draft_models.tail import write_tail
from server.models.kept_folder import keep_folder

_VERSION = 2
"""Of what `write_tail` makes of a target, or refuses to make: to be raised when that changes, as a kept tail is not
checked again and one of another version is not used."""


def keep_tail(target: Path, fingerprint: str, layers: int, cache: Path) -> Path:
    """The directory of the target's last `layers` layers, written now unless it was before.

    Raises CheckpointError where the target has fewer, or where the cache cannot be written.
    """
    kept = cache / "tails" / f"{fingerprint}-{layers}-{_VERSION}"
    return keep_folder(kept, lambda out: write_tail(target, layers, out), "the target's last layers")
