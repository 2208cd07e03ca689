"""Quantises a bundle on this machine, for servers that offer none in the wanted weights mode.

Inside the bundle's directory, so that what is made of it is counted and removed with it, each mode has a folder that
looks like the bundle: links to its files, and to quantised copies of those of weights. Knows files and no server.
"""

import os
import secrets
import shutil
from pathlib import Path

from safetensors import SafetensorError

from client.cache.bundle_check import damage_of
from client.errors import BundleError
from common.bundle import BundleManifest
from common.models.source import CONFIG, QUANTISATION, read_json
from common.protocol.errors import MisuseError
from common.weight_only.cached import FOLDER, keep_quantised
from common.weight_only.modes import AS_IS, QUANTISED, WEIGHTS_SUFFIX


def quantised_here(bundle: Path, manifest: BundleManifest, weights: str) -> Path:
    """A directory of the bundle's files in the mode `weights`: its own, or one inside it, made unless it was before.

    Raises BundleError if it cannot be written or the bundle is damaged, MisuseError for a draft that is stored in few
    bits already.
    """
    if weights in (AS_IS, manifest.weights):
        return bundle
    if (bundle / CONFIG).is_file() and read_json(bundle / CONFIG).get(QUANTISATION):
        raise MisuseError(f"the draft model '{manifest.draft}' is quantised already; leave --weights out")
    directory = bundle / weights
    try:
        for file in manifest.files:
            source = bundle / file.path
            if file.path.endswith(WEIGHTS_SUFFIX):
                source = keep_quantised(source, file.sha256, weights, bundle)
            _link(directory / file.path, source)
    except (OSError, SafetensorError) as error:
        raise damage_of(bundle, manifest) or BundleError(
            f"the draft model '{manifest.draft}' cannot be quantised in {bundle}: {error}; make room there, or leave "
            "--weights out"
        ) from error
    return directory


def discard_quantised(bundle: Path) -> None:
    """Removes what was quantised of a bundle; a process that has loaded it goes on."""
    for name in (FOLDER, *QUANTISED):
        shutil.rmtree(bundle / name, ignore_errors=True)


def _link(link: Path, source: Path) -> None:
    """Atomically, for another process may be doing the same."""
    relative = os.path.relpath(source, link.parent)
    if link.is_symlink() and str(link.readlink()) == relative:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    partial = link.with_name(f"{link.name}.{secrets.token_hex(8)}.part")
    partial.symlink_to(relative)
    partial.replace(link)
