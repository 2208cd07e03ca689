"""Pins of what servers hand out, from their first use, so that a client notices a change, as ssh does with host keys.

One small file beside the bundles, by address and target. Servers on this machine are not pinned: during development
they change their model daily, and behind a tunnel the tunnel vouches for who answers. Knows no link and no files of
bundles.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from client.cache.directory_lock import locked
from client.errors import BundleError
from common.address import Address
from common.atomic import atomic_file
from common.bundle import BundleFile, BundleManifest
from common.protocol.plain import plain
from common.rpc.description import ServerDescription
from common.weight_only.modes import AS_IS, WEIGHTS_SUFFIX

_log = logging.getLogger(__name__)

_FILE = "pins.json"
_SHOWN = 12  # characters of an identity, for a person


@dataclass(frozen=True, slots=True)
class Pin:
    """The target that a server decides with, and the id of the bundle that it has for each draft."""

    model: str
    fingerprint: str
    bundles: Mapping[str, str]


Pins = Mapping[str, Pin]


async def keep_pin(
    cache: Path,
    address: Address,
    description: ServerDescription,
    manifest: BundleManifest,
    model: str = "",
    *,
    trust_new: bool = False,
) -> None:
    """Remembers all that a server hands out, the first time that it does, and compares the bundle that is wanted later.
    The server's first target is remembered apart from those that were asked for by name, in `model`, so that it cannot
    change unnoticed by changing its name. A further target of a known server is told by a warning.

    Raises BundleError if that is not what was remembered, unless what is new is to be trusted, and if it cannot
    be remembered. To be called before anything is fetched.
    """
    if address.is_loopback:
        return
    first = str(address).lower()
    name = f"{first} {model}" if model else first
    bundles = (*description.bundles, *description.quantised)
    offered = Pin(description.model, description.fingerprint, {_name(each): each.id for each in bundles})
    known = _known(_read(cache), name, first, model)
    change = None if known is None else _change(address, known, offered, manifest, description)
    if known is not None and not change and _name(manifest) in known.bundles:
        return
    try:
        async with locked(cache):
            pins = _read(cache)  # another process may have been first
            kept = _known(pins, name, first, model)
            change = _change(address, kept or offered, offered, manifest, description)
            if change and not trust_new:
                pull = f"outrider pull {model}".strip()
                raise BundleError(f"{change}, accept it with `{pull} --server {address} --trust-new`")
            if kept is not None and not change:  # only a weights mode is new
                offered = replace(kept, bundles={_name(manifest): manifest.id, **kept.bundles})
            _write(cache, {**pins, name: offered})
            if kept is None and first in pins:
                _log.warning("%s has another target, %s, which is new to this machine", address, _target(offered))
    except OSError as error:
        raise BundleError(
            f"what {address} hands out cannot be remembered in {cache}: {error.strerror}; try another --cache-dir"
        ) from error


def _known(pins: Pins, name: str, first: str, model: str) -> Pin | None:
    """A target that is asked for by name may be known already as the server's first."""
    default = pins.get(first)
    return pins.get(name) or (default if default is not None and default.model == model else None)


def _change(address: Address, known: Pin, offered: Pin, wanted: BundleManifest, description: ServerDescription) -> str:
    """What differs, as half a sentence; empty if nothing does."""
    if known.fingerprint != offered.fingerprint:
        return (
            f"{address} decides with another target, {_target(offered)}, than when this machine first used it, "
            f"{_target(known)}; if its operator says so too"
        )
    before = known.bundles.get(_name(wanted))
    if before is None and wanted.draft in known.bundles:  # in a weights mode that the server did not offer before
        pinned = (each for each in description.bundles if each.id == known.bundles[wanted.draft])
        if any(_but_weights(each) == _but_weights(wanted) for each in pinned):
            return ""
        before = known.bundles[wanted.draft]
    if before is None:
        return (
            f"{address} hands out a draft '{wanted.draft}' that it did not have when this machine first used it; if "
            "its operator has added it"
        )
    if before != wanted.id:
        return (
            f"{address} hands out another draft '{wanted.draft}', {_identity(wanted.id)}, than when this machine first "
            f"used it, {_identity(before)}; if its operator has trained it anew"
        )
    return ""


def _but_weights(manifest: BundleManifest) -> tuple[str, str, list[BundleFile | str]]:
    """What a bundle has in common in all weights modes: all but the content of the files of weights."""
    files = [file.path if file.path.endswith(WEIGHTS_SUFFIX) else file for file in manifest.files]
    return manifest.draft, manifest.kind, files


def _name(manifest: BundleManifest) -> str:
    return manifest.draft if manifest.weights == AS_IS else f"{manifest.draft} in {manifest.weights}"


def _target(pin: Pin) -> str:
    return f"{plain(pin.model)} ({_identity(pin.fingerprint)})"


def _identity(text: str) -> str:
    return plain(text[:_SHOWN])


def _read(cache: Path) -> Pins:
    """Raises BundleError for a file that is not ours: it may hide what was pinned."""
    file = cache / _FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(name): Pin(
                str(pin["model"]),
                str(pin["fingerprint"]),
                {str(draft): str(bundle) for draft, bundle in pin["bundles"].items()},
            )
            for name, pin in content.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BundleError(f"{file} cannot be read: {error.strerror}; fix its permissions") from error
    # RecursionError is what JSON raises that is nested too deeply.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BundleError(
            f"{file}, which remembers what servers hand out, is broken; put back what it was, or delete it to trust "
            "every server anew"
        ) from error


def _write(cache: Path, pins: Pins) -> None:
    with atomic_file(cache / _FILE) as file:
        file.write(json.dumps({name: asdict(pin) for name, pin in pins.items()}, indent=2).encode() + b"\n")
