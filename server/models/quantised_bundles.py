"""The bundles that a server offers once more with quantised weights, for clients with little memory or a slow link.

It may not know how weights are quantised, nor how bundles travel.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from common.bundle import TargetCard, describe_file, make_manifest
from common.weight_only.cached import keep_quantised
from common.weight_only.modes import QUANTISED, WEIGHTS_SUFFIX
from server.models.bundles import OfferedBundle

_log = logging.getLogger(__name__)


def quantise_bundles(bundles: Sequence[OfferedBundle], card: TargetCard, cache: Path) -> tuple[OfferedBundle, ...]:
    """Each of `bundles` in each mode; quantised files are kept in `cache`. None if nothing can be kept there: clients
    quantise for themselves then."""
    try:
        return tuple(_quantised(bundle, mode, card, cache) for bundle in bundles for mode in QUANTISED)
    except (OSError, SafetensorError) as error:
        _log.warning("no quantised bundles are offered, for they cannot be written to %s: %s", cache, error)
        return ()


def _quantised(bundle: OfferedBundle, mode: str, card: TargetCard, cache: Path) -> OfferedBundle:
    sources = {
        file.path: keep_quantised(bundle.sources[file.path], file.sha256, mode, cache)
        if file.path.endswith(WEIGHTS_SUFFIX)
        else bundle.sources[file.path]
        for file in bundle.manifest.files
    }
    files = [describe_file(path, source) for path, source in sources.items()]
    return OfferedBundle(
        make_manifest(bundle.manifest.draft, bundle.manifest.kind, card.fingerprint, files, mode), sources
    )
