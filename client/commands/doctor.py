"""`outrider doctor`: what could stand in the way, checked one by one, each with what fixes it."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from client.doctor.draft_sizes import Memory
from client.doctor.network_checks import check_network
from client.doctor.server_checks import check_server_description
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.cache import cache_directory
from common.memory import free_memory_bytes
from common.programs.configuration import Program, configured_by
from common.programs.findings import Finding, is_well, show
from common.programs.machine import check_clock, check_device, check_folder, check_packages, check_python
from common.programs.settings import check_settings
from common.protocol.errors import MisuseError
from common.weight_only.needs import number_bytes

_USUAL_BUNDLE_BYTES = 2 * 10**9  # with a model draft and its partial files


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be checked beside the machine. `reach` tells the server, and may raise MisuseError; None for none."""

    reach: Callable[[], Access] | None
    model: str  # empty for the server's first
    draft: str | None  # None for the target's first
    device: str
    dtype: str
    weights: str
    cache: Path | None


async def doctor(context: typer.Context, program: Program, choice: Choice, *, as_json: bool) -> bool:
    """Prints a line for each check; whether all is well."""
    directory, now = cache_directory(choice.cache), datetime.now(UTC)
    # A server says how much its bundle takes.
    wanted = 0 if choice.reach else _USUAL_BUNDLE_BYTES
    findings = [
        check_python(),
        check_packages(),
        check_clock(now.timestamp()),
        *check_settings(context, program, os.environ),
        check_device(choice.device, choice.dtype),
        check_folder("cache", directory, wanted, "choose another place with --cache-dir"),
    ]
    if choice.reach is None:
        is_broken = bool(configured_by(context).fault)
        why = "the configuration that may name one cannot be used" if is_broken else "none was named"
        findings.append(Finding("server", f"{why}, so none was checked; --server HOST:PORT checks one"))
    else:
        findings += await _check_server(choice.reach, choice, directory, now)
    show(findings, as_json=as_json)
    return is_well(findings)


async def _check_server(reach: Callable[[], Access], choice: Choice, cache: Path, now: datetime) -> list[Finding]:
    try:
        access = reach()
        drafts = DraftChoice(choice.draft, weights=choice.weights, model=choice.model)
    except MisuseError as error:
        return [Finding("server", "it cannot be asked so", str(error))]
    memory, findings = Memory(free_memory_bytes(choice.device), number_bytes(choice.dtype)), list[Finding]()
    for address in access.addresses:
        found = await asyncio.to_thread(check_network, address, access.tls, now)
        if is_well(found):
            replica = replace(access, address=address)
            found += await check_server_description(replica, drafts, cache, memory)
        findings += found
    return findings
