"""The bundle cache: which bundle a client takes, and fetching it so that an interruption loses nothing.

A file grows as `NAME.part` and takes its name when its checksum is right; `bundle.json` comes last. One process at
a time works on a bundle. Knows neither gRPC nor what the files mean.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from client.cache.directory_lock import locked
from client.cache.quantised_bundle import discard_quantised
from client.errors import BundleError
from common.atomic import put_in_place
from common.bundle import (
    MANIFEST_FILE,
    Bundle,
    BundleFile,
    BundleManifest,
    TargetCard,
    describe_file,
    first_damaged,
    write_bundle_file,
)
from common.counted import format_bytes
from common.draft_kinds import LOOKUP, STATELESS_KINDS
from common.protocol.errors import MisuseError
from common.rpc.description import FileRequest, ServerDescription

FOLDER = "bundles"
"""Of the cache; each bundle has a folder there, whose name is its id."""

Advance = Callable[[int], None]
"""Called with the bytes of the bundle that are in place now."""


class Source(Protocol):
    """Where bundles come from."""

    def fetch(self, request: FileRequest) -> AsyncIterator[bytes]: ...


def choose_bundle(offered: Sequence[BundleManifest], draft: str | None) -> BundleManifest:
    """The bundle of the draft with this name; without a name the first with a model, else `lookup`.

    Raises MisuseError if the server has no such draft, BundleError if it has none.
    """
    if draft is not None:
        for manifest in offered:
            if manifest.draft == draft:
                return manifest
        names = ", ".join(dict.fromkeys([*(manifest.draft for manifest in offered), *STATELESS_KINDS]))
        raise MisuseError(f"the server offers no draft '{draft}'; choose from: {names}")
    if not offered:
        raise BundleError("the server offers no bundle; ask its operator for one")
    return next((manifest for manifest in offered if manifest.kind != LOOKUP), offered[0])


def in_weights(
    manifest: BundleManifest, quantised: Sequence[BundleManifest], weights: str, cache: Path
) -> BundleManifest:
    """The bundle of the same draft in this weights mode, among the `quantised` ones that a server offers. If it offers
    none, or `manifest` itself is here already, `manifest` is quantised here."""
    offered = (each for each in quantised if (each.draft, each.weights) == (manifest.draft, weights))
    found = next(offered, manifest)
    return manifest if is_complete(cache, manifest) and not is_complete(cache, found) else found


def bundle_directory(cache: Path, manifest: BundleManifest) -> Path:
    return cache / FOLDER / manifest.id


def is_complete(cache: Path, manifest: BundleManifest) -> bool:
    """Whether every file is there in its whole size; checksums take too long for every start."""
    directory = bundle_directory(cache, manifest)
    whole = all(_has_size(directory / file.path, file.size) for file in manifest.files)
    return whole and (directory / MANIFEST_FILE).is_file()


async def pull(
    source: Source, description: ServerDescription, manifest: BundleManifest, cache: Path, advance: Advance
) -> Path:
    """Fetches what is missing of a bundle and returns its directory.

    Raises BundleError if a file arrives damaged or cannot be kept, LinkError if the link breaks. Nothing is
    fetched of a bundle for which the disk has no room.
    """
    directory = bundle_directory(cache, manifest)
    _check_room(directory, manifest)
    async with _locked_bundle(cache, manifest):
        if is_complete(cache, manifest):
            return directory
        in_place = 0
        for file in manifest.files:
            await _fetch_file(source, manifest.id, file, directory, in_place, advance)
            in_place += file.size
            advance(in_place)
        card = TargetCard(
            description.model,
            description.fingerprint,
            description.vocab_size,
            description.context,
            description.end_tokens,
        )
        write_bundle_file(directory, Bundle(manifest, card))
    return directory


def needed_room(directory: Path, manifest: BundleManifest) -> int:
    """The bytes that a pull needs beside what is there."""
    return sum(_needed_for(directory / file.path, file.size) for file in manifest.files)


def _check_room(directory: Path, manifest: BundleManifest) -> None:
    needed = needed_room(directory, manifest)
    free = shutil.disk_usage(next(each for each in (directory, *directory.parents) if each.is_dir())).free
    if needed > free:
        raise BundleError(
            f"the draft model '{manifest.draft}' needs {format_bytes(needed)}, but {format_bytes(free)} are free in "
            f"{directory.parent}; make room or choose another --cache-dir"
        )


async def discard_damaged(cache: Path, manifest: BundleManifest) -> None:
    """Reads a bundle whole and takes out what differs from its manifest, so that the next pull fetches it again.
    What was quantised of it here is taken out too: no checksum tells whether that is damaged."""
    directory = bundle_directory(cache, manifest)
    async with _locked_bundle(cache, manifest):
        discard_quantised(directory)
        for file in manifest.files:
            if first_damaged(directory, replace(manifest, files=(file,))) is not None:
                (directory / MANIFEST_FILE).unlink(missing_ok=True)
                (directory / file.path).unlink(missing_ok=True)


@asynccontextmanager
async def _locked_bundle(cache: Path, manifest: BundleManifest) -> AsyncIterator[None]:
    try:
        async with locked(bundle_directory(cache, manifest)):
            yield
    except OSError as error:
        raise BundleError(f"the bundle cannot be kept in {cache}: {error.strerror}; try another --cache-dir") from error


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _needed_for(path: Path, size: int) -> int:
    """A part is resumed, and one that is too long is removed first."""
    return 0 if _has_size(path, size) else max(0, size - _size(_part_of(path)))


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


async def _fetch_file(
    source: Source, bundle: str, file: BundleFile, directory: Path, before: int, advance: Advance
) -> None:
    path = directory / file.path
    if _has_size(path, file.size):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part_of(path)
    size = _size(part)
    if size > file.size:
        part.unlink()
        size = 0
    with part.open("ab") as output:
        if size < file.size:
            async for data in source.fetch(FileRequest(bundle, file.path, size)):
                size += len(data)
                if size > file.size:
                    break
                output.write(data)
                advance(before + size)
    if size < file.size:
        raise BundleError(f"the server ended {file.path} early; run the command again to resume")
    if await asyncio.to_thread(describe_file, file.path, part) != file:
        part.unlink()
        raise BundleError(f"{file.path} arrived damaged and was thrown away; run the command again")
    await asyncio.to_thread(put_in_place, part, path)
