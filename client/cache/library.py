"""The library: the bundles in this user's cache by the names that people give and read, and their removal.

A bundle's name is MODEL/DRAFT, or MODEL/DRAFT-int8 for one of quantised weights. Knows files and no server.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from client.cache.bundles import FOLDER
from client.cache.directory_lock import locked
from client.cache.uses import InUseError, LastUse, last_use, unused
from client.errors import BundleError
from common.bundle import MANIFEST_FILE, read_bundle_file
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError
from common.protocol.plain import plain
from common.weight_only.modes import AS_IS

_SHOWN = 8  # characters of an id, for a person
_NEAR = 0.75  # alike enough for a target's name


@dataclass(frozen=True, slots=True)
class KeptBundle:
    """`target` and `draft` are empty for a bundle of which not all has arrived; `weights` is the mode in which it
    was fetched; `last_use` is None if it was only fetched, by a release that noted nothing."""

    id: str
    name: str
    target: str
    draft: str
    weights: str
    bytes: int
    last_use: LastUse | None


def kept_bundles(cache: Path) -> list[KeptBundle]:
    """All bundles of the cache, by name. Two of one name, of different servers or times, have the beginnings of their
    ids in their names."""
    folder = cache / FOLDER
    found = [_kept(cache, directory) for directory in folder.iterdir() if directory.is_dir()] if folder.is_dir() else []
    names = Counter(bundle.name for bundle in found)
    unique = [
        replace(bundle, name=f"{bundle.name}@{bundle.id[:_SHOWN]}") if names[bundle.name] > 1 else bundle
        for bundle in found
    ]
    return sorted(unique, key=lambda bundle: bundle.name)


def find_bundle(kept: Sequence[KeptBundle], name: str) -> KeptBundle:
    """The bundle of that name, or the only one of the target of that name. Raises MisuseError if there is none, or more
    than one."""
    found = [bundle for bundle in kept if bundle.name == name]
    found = found or [bundle for bundle in kept if name in (bundle.target, f"{bundle.target}/{bundle.draft}")]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(bundle.name for bundle in found)
        raise MisuseError(f"'{plain(name)}' is the name of {len(found)} bundles; choose one: {names}")
    target, has_draft, _ = name.partition("/")
    # Of no other target: that would have another one's draft removed.
    near = [bundle for bundle in kept if did_you_mean(target, [bundle.target or bundle.name], alike=_NEAR)]
    meant = did_you_mean(name, {bundle.name if has_draft else bundle.target or bundle.name for bundle in near})
    raise MisuseError(f"there is no bundle '{plain(name)}' here; {meant or '`outrider list` shows all'}")


async def remove_bundle(cache: Path, bundle: KeptBundle) -> None:
    """Raises MisuseError if a running process uses or fetches it, BundleError if it cannot be removed."""
    directory = cache / FOLDER / bundle.id
    try:
        with unused(cache, bundle.id):
            async with locked(directory, waits=False):
                # First, so that what an interruption leaves counts as incomplete.
                (directory / MANIFEST_FILE).unlink(missing_ok=True)
                shutil.rmtree(directory)
    except InUseError as error:
        raise MisuseError(f"'{bundle.name}' is in use; end the `outrider` that uses it first") from error
    except TimeoutError as error:
        raise MisuseError(f"'{bundle.name}' is being fetched; end that first") from error
    except OSError as error:
        raise BundleError(f"'{bundle.name}' cannot be removed from {cache}: {error.strerror}") from error


def _kept(cache: Path, directory: Path) -> KeptBundle:
    identity, read = directory.name, read_bundle_file(directory)
    use, size = last_use(cache, identity), _size_bytes(directory.rglob("*"))
    if read is None or read.manifest.id != identity:
        return KeptBundle(identity, plain(identity[:_SHOWN]), "", "", AS_IS, size, use)
    target, draft, weights = (plain(text) for text in (read.target.model, read.manifest.draft, read.manifest.weights))
    name = f"{target}/{draft}" if weights == AS_IS else f"{target}/{draft}-{weights}"
    return KeptBundle(identity, name, target, draft, weights, size, use)


def _size_bytes(files: Iterable[Path]) -> int:
    size = 0
    for file in files:
        with suppress(OSError):  # it may be renamed while it is being fetched
            size += os.stat(file).st_size if file.is_file() and not file.is_symlink() else 0
    return size
