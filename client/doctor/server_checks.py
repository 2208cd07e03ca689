"""The checks of a server that was reached: its health, its version, its target and drafts, and whether its bundle is in
the cache.

It may not know sockets or certificates.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from client.cache.bundles import bundle_directory, choose_bundle, is_complete, needed_room
from client.cache.known_servers import recall
from client.cache.pins import keep_pin
from client.chosen_bundles import check_together, each_bundle_to_fetch, manifest_of
from client.doctor.draft_sizes import Memory, check_draft_sizes
from client.drafting.draft_loader import DraftChoice
from client.link.replicas import check_model
from client.link.stream import Access
from common.address import Address
from common.bundle import BundleManifest, first_damaged
from common.counted import format_bytes
from common.programs.findings import Finding
from common.programs.machine import check_folder
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection
from common.weight_only.modes import AS_IS

_TIMEOUT_S = 20.0
_ROUND_TRIPS = 5
_SHOWN = 12  # characters of a fingerprint, for a person


async def check_server_description(access: Access, choice: DraftChoice, cache: Path, memory: Memory) -> list[Finding]:
    """Findings up to the first that leaves nothing more to ask, of the target and the drafts that are chosen."""
    findings: list[Finding] = []
    try:
        async with access.connect() as connection:
            async with asyncio.timeout(_TIMEOUT_S):
                findings.append(await _check_health(connection))
                description = await _described(connection, access, choice.model, findings)
            is_known = description is not None and description.version == PROTOCOL_VERSION
            sizes = await _check_sizes(connection, description, choice, memory) if description and is_known else []
    except TimeoutError:
        return [*findings, Finding("server", f"{access.address} does not answer within {_TIMEOUT_S:.0f} s", _LATER)]
    except OutriderError as error:
        return [*findings, Finding("server", f"{access.address} is of no use", str(error))]
    if description is None:
        return findings
    findings.append(_check_version(description, access.address))
    if findings[-1].fix:
        return findings
    try:
        check_together(description, choice)
        manifests = [manifest_of(description, each, cache) for each in each_bundle_to_fetch(description, choice)]
    except OutriderError as error:
        return [*findings, Finding("draft", f"{choice.draft or 'a draft'} is not to be had", str(error))]
    findings.append(await _check_target(description, manifests, access.address, choice.model, cache))
    findings += [await asyncio.to_thread(_check_bundle, manifest, cache) for manifest in manifests]
    return findings + sizes


_LATER = "try again later, or tell its operator"


async def _check_health(connection: Connection) -> Finding:
    """Whether the server takes new sessions, and the round trip on a connection that stands."""
    takes_sessions = await connection.check()
    taken = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        await connection.check()
        taken.append(time.perf_counter() - began)
    detail = f"round trip {min(taken) * 1000:.1f} ms, the best of {_ROUND_TRIPS}"
    if not takes_sessions:
        return Finding("health", f"the server is draining and takes no new sessions; {detail}", _LATER)
    return Finding("health", f"the server takes sessions; {detail}")


async def _described(
    connection: Connection, access: Access, model: str, findings: list[Finding]
) -> ServerDescription | None:
    """None if it does not say, and a finding says why. Raises OutriderError for what has nothing to do with who we
    are."""
    try:
        description = await connection.describe(_TIMEOUT_S, model)
    except MisuseError:
        given = "the one that was given is wrong" if access.token else "none was given"
        fix = "give --token-file, or --token, with what the server's operator issued"
        findings.append(Finding("token", f"the server asks for a bearer token, and {given}", fix))
        return None
    check_model(description, model)
    return description


def _check_version(description: ServerDescription, address: Address) -> Finding:
    theirs = f"{description.model} at {address}, release {description.release}, protocol {description.version}"
    if description.version == PROTOCOL_VERSION:
        others = f"; it serves {', '.join(description.served)}" if len(description.served) > 1 else ""
        return Finding("server", theirs + others)
    ours = f"this client speaks protocol {PROTOCOL_VERSION}"
    older = "upgrade this client" if description.version > PROTOCOL_VERSION else "have its operator upgrade the server"
    return Finding("server", f"{theirs}, but {ours}", older)


async def _check_target(
    description: ServerDescription, manifests: Sequence[BundleManifest], address: Address, model: str, cache: Path
) -> Finding:
    named = f"{description.model}, fingerprint {description.fingerprint[:_SHOWN]}"
    try:
        for manifest in manifests:
            await keep_pin(cache, address, description, manifest, model)
    except OutriderError as error:
        return Finding("target", f"{named}, is not as it was", str(error))
    known = recall(cache, str(address), model)
    if known is not None and known.fingerprint != description.fingerprint:
        detail = f"{named}, but {known.fingerprint[:_SHOWN]} when it was last used; its draft model is another one too"
        return Finding("target", detail, "run `outrider pull`", is_minor=True)
    return Finding("target", named)


async def _check_sizes(
    connection: Connection, description: ServerDescription, choice: DraftChoice, memory: Memory
) -> list[Finding]:
    """Nothing where a draft is not to be had, which is a finding of its own."""
    try:
        chosen = [choose_bundle(description.bundles, name) for name in (choice.bundle, *choice.other_bundles)]
    except OutriderError:
        return []
    return await check_draft_sizes(connection, description, chosen, choice.weights, memory)


def _check_bundle(manifest: BundleManifest, cache: Path) -> Finding:
    mode = "" if manifest.weights == AS_IS else f" in {manifest.weights}"
    name = f"draft {manifest.draft}{mode} ({manifest.kind})"
    directory = bundle_directory(cache, manifest)
    if is_complete(cache, manifest):
        damaged = first_damaged(directory, manifest)
        if damaged is None:
            return Finding("bundle", f"{name} is here and whole")
        return Finding("bundle", f"{name} is here, but {damaged} is damaged", "run `outrider pull`")
    missing = needed_room(directory, manifest)
    room = check_folder("bundle", cache, missing, "choose another place with --cache-dir")
    return Finding(
        "bundle", f"{name} is not here yet, {format_bytes(missing)} are fetched when needed; {room.detail}", room.fix
    )
