"""Checks that a bundle in the cache is still what its server sent: a damaged tokenizer or chat template would silently
change the text.

All but the weights is read at every start, for damage leaves times as they are and a tokenizer takes milliseconds.
Weights are read if a file is newer than `bundle.json`, which is written last, and wholly by `outrider pull`. Knows
files and no server.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from client.errors import BundleError
from common.bundle import MANIFEST_FILE, BundleManifest, first_damaged
from common.weight_only.modes import WEIGHTS_SUFFIX


def check_intact(bundle: Path, manifest: BundleManifest) -> None:
    """Raises BundleError for a file that is not what its server sent."""
    times = {file: _written_ns(bundle / file.path) for file in manifest.files}
    checked = _written_ns(bundle / MANIFEST_FILE)
    read = tuple(
        file for file, written in times.items() if not (0 < written <= checked and file.path.endswith(WEIGHTS_SUFFIX))
    )
    damage = damage_of(bundle, replace(manifest, files=read))
    if damage is not None:
        raise damage
    newest = max(times.values(), default=checked)
    if newest > checked:
        with suppress(OSError):  # if nothing can be written, they are read again the next time
            os.utime(bundle / MANIFEST_FILE, ns=(newest, newest))


def damage_of(bundle: Path, manifest: BundleManifest) -> BundleError | None:
    """What happened to files since they were fetched; None if they are as their server sent them."""
    damaged = first_damaged(bundle, manifest)
    if damaged is None:
        return None
    return BundleError(f"{damaged} in the bundle is damaged; fetch it again with `outrider pull`")


def _written_ns(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0
