"""Quantises a bundle on this machine, for servers that offer none in the wanted weights mode. Knows files and no
server."""

import os
import shutil
from pathlib import Path

from safetensors import SafetensorError

from client.errors import BundleError
from common.bundle import MANIFEST_FILE, BundleManifest
from common.weight_only.modes import AS_IS


def quantised_here(bundle: Path, manifest: BundleManifest, weights: str) -> Path:
    """The bundle's directory in the mode `weights`: itself, or a quantised copy beside it, made unless it was before.

    Raises BundleError if it cannot be written.
    """
    if weights in (AS_IS, manifest.weights):
        return bundle
    from common.weight_only.files import quantise_directory

    kept = bundle.with_name(f"{bundle.name}-{weights}")
    if (kept / MANIFEST_FILE).is_file():
        return kept
    partial = bundle.with_name(f"{kept.name}.{os.getpid()}.part")
    try:
        quantise_directory(bundle, weights, partial)
        shutil.rmtree(kept, ignore_errors=True)
        partial.rename(kept)
    except (OSError, SafetensorError) as error:
        if not (kept / MANIFEST_FILE).is_file():  # another process may have been first
            raise BundleError(
                f"the draft model '{manifest.draft}' cannot be quantised in {bundle.parent}: {error}; make room there, "
                "or leave --weights out"
            ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return kept
