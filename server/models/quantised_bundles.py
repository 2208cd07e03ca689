"""The bundles that a server offers once more with quantised weights, for clients with little memory or a slow link.

It may not know how weights are quantised, nor how bundles travel.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from common.bundle import TargetCard, describe_file, make_manifest
from common.models.quantised import method_of
from common.models.source import CONFIG, read_json
from common.protocol.errors import MisuseError
from common.weight_only.cached import keep_quantised, kept_file
from common.weight_only.modes import QUANTISED, WEIGHTS_SUFFIX
from server.models.bundles import OfferedBundle
from server.observe.log import note

_log = logging.getLogger(__name__)


def quantise_bundles(bundles: Sequence[OfferedBundle], card: TargetCard, cache: Path) -> tuple[OfferedBundle, ...]:
    """Each of `bundles` in each mode, but those of drafts that are stored in few bits already; quantised files are kept
    in `cache`. None if nothing can be kept there: clients quantise for themselves then."""
    made, is_announced = list[OfferedBundle](), False
    for bundle in bundles:
        try:
            _check_plain(bundle)
            if not is_announced and not _is_kept(bundle, cache):  # the server seems to hang meanwhile
                sentence = f"quantising drafts of {card.model} for clients; large ones take minutes, once"
                note("quantising", sentence, model=card.model)
                is_announced = True
            made += [_quantised(bundle, mode, card, cache) for mode in QUANTISED]
        except MisuseError as error:
            _log.warning("the draft %s is offered with its weights as they are alone: %s", bundle.manifest.draft, error)
        except (OSError, SafetensorError) as error:
            _log.warning("no quantised bundles are offered, for they cannot be written to %s: %s", cache, error)
            return ()
    return tuple(made)


def _check_plain(bundle: OfferedBundle) -> None:
    """Raises MisuseError for a draft whose numbers mean nothing without what its quantisation method stores beside."""
    config = bundle.sources.get(CONFIG)
    if config is not None and (method := method_of(read_json(config))):
        raise MisuseError(f"it is quantised already ({method})")


def _is_kept(bundle: OfferedBundle, cache: Path) -> bool:
    weights = [file.sha256 for file in bundle.manifest.files if file.path.endswith(WEIGHTS_SUFFIX)]
    return all(kept_file(digest, mode, cache).is_file() for digest in weights for mode in QUANTISED)


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
