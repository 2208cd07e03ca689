"""The bundles of a choice of drafts: which they are, whether they can draft together, how they are fetched, and which
one `auto` is.

It may not know conversations, or what a server that is out of reach leaves to do.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from client.cache.bundles import (
    Advance,
    bundle_directory,
    choose_bundle,
    discard_damaged,
    in_weights,
    is_complete,
    pull,
)
from client.cache.level_times import LevelTimes
from client.cache.pins import keep_pin
from client.drafting.draft_loader import AUTO, DraftChoice, DraftLoader
from common.address import Address
from common.bundle import BundleManifest
from common.draft_kinds import STATELESS_KINDS
from common.drafters.load import check_shared_state
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection

Download = Callable[[BundleManifest], AbstractContextManager[Advance]]
"""Begins to show a download; what it yields is called with the number of bytes in place."""


async def fetch_bundle(
    connection: Connection,
    address: Address,
    description: ServerDescription,
    choice: DraftChoice,
    cache: Path,
    download: Download,
    *,
    trust_new: bool = False,
    reread: bool = False,
) -> tuple[BundleManifest, Path]:
    """The chosen bundle and its directory, fetched if it is not complete yet; with `reread` also if it is damaged. Its
    weights are in the chosen mode if the server offers it.

    Raises BundleError, before anything is fetched, if the server at `address` hands out another than it did, unless
    what is new is to be trusted.
    """
    manifest = manifest_of(description, choice, cache)
    await keep_pin(cache, address, description, manifest, choice.model, trust_new=trust_new)
    if reread:
        await discard_damaged(cache, manifest)
    if not is_complete(cache, manifest):
        with download(manifest) as advance:
            await pull(connection, description, manifest, cache, advance)
    return manifest, bundle_directory(cache, manifest)


def manifest_of(description: ServerDescription, choice: DraftChoice, cache: Path) -> BundleManifest:
    """That of the chosen draft, in the chosen mode of weights."""
    chosen = choose_bundle(description.bundles, choice.bundle)
    return in_weights(chosen, description.quantised, choice.weights, cache)


def each_bundle(description: ServerDescription, choice: DraftChoice) -> list[DraftChoice]:
    """The choice of each bundle: of the draft beside which the others draft, these, and what stands in; for `auto` of
    every draft model that the server offers."""
    if choice.draft == AUTO:
        models = [each.draft for each in description.bundles if each.kind not in STATELESS_KINDS]
        return [replace(choice, draft=name) for name in models]
    further = [*choice.other_bundles, *([choice.stand_in] if choice.stand_in else [])]
    return [choice, *(replace(choice, draft=name) for name in further)]


def each_bundle_to_fetch(description: ServerDescription, choice: DraftChoice) -> list[DraftChoice]:
    """As `each_bundle`; for `auto` the server's first where it offers no draft model, as `auto` takes it then."""
    return each_bundle(description, choice) or [replace(choice, draft=None)]


def check_together(description: ServerDescription, choice: DraftChoice) -> None:
    """Whether the drafts of a choice can draft together for the target that is described. Raises MisuseError where one
    is not for it, or one request for draft state does not serve them all; before anything is fetched."""
    if not choice.other_bundles:
        return
    offered = {manifest.draft: manifest.kind for manifest in description.bundles}
    names = [name for name in (choice.bundle, *choice.other_bundles) if name is not None]
    missing = next((name for name in names if name not in offered), None)
    if missing is not None:
        other = next(name for name in names if name != missing)
        raise MisuseError(
            f"'{other}' and '{missing}' cannot draft together, for the server offers no '{missing}' for the target "
            f"'{description.model}'; choose from: {', '.join(offered)}"
        )
    check_shared_state([(offered[name], StateRequest(name)) for name in names])


async def settled(description: ServerDescription, choice: DraftChoice, round_trip: float, cache: Path) -> DraftChoice:
    """The choice with the draft model that drafts fastest here instead of `auto`, of those that are in the cache."""
    if choice.draft != AUTO:
        return choice
    return await asyncio.to_thread(_fastest, description, choice, round_trip, cache)


def _fastest(description: ServerDescription, choice: DraftChoice, round_trip: float, cache: Path) -> DraftChoice:
    from client.drafting.fastest_draft import settle

    loaders = []
    for each in each_bundle(description, choice):
        manifest = manifest_of(description, each, cache)
        if is_complete(cache, manifest):
            bundle = bundle_directory(cache, manifest)
            sizes = description.context, description.vocab_size
            loaders.append(DraftLoader(bundle, manifest, each, *sizes, round_trip))
    return settle(choice, loaders, LevelTimes(cache))
