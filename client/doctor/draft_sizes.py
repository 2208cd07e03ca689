"""What each of a server's drafts will take here, told before it is fetched: memory in each weights mode, and the time
on the present link.

Reads the first bytes of a bundle's files from the server, which also tell how fast the link is. It may not know what is
in the cache.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from common.bundle import BundleManifest
from common.counted import format_bytes
from common.draft_models.memory import Headers, needed_bytes
from common.programs.findings import Finding
from common.protocol.errors import OutriderError, PeerError
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.stub import Connection
from common.weight_only.modes import MODES, WEIGHTS_SUFFIX
from common.weight_only.needs import LENGTH_BYTES, StoredTensor, header_length, read_header

_MOST_HEADER_BYTES = 16 * 10**6
_MEASURED_BYTES = 4 * 10**6
_MEASURED_S = 1.0
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Memory:
    """`free`: bytes, 0 if unknown; `width`: bytes of a number that is not quantised."""

    free: int
    width: int


@dataclass(frozen=True, slots=True)
class _Begin:
    """The tensors that a file's first bytes list, and how fast those came, in bytes per second."""

    tensors: Mapping[str, StoredTensor]
    rate: float


async def check_draft_sizes(
    connection: Connection,
    description: ServerDescription,
    chosen: Collection[BundleManifest],
    weights: str,
    memory: Memory,
) -> list[Finding]:
    """One finding for each draft with weights, of the `chosen` ones first and in full, and a minor one if the server or
    the link keeps some from being read. Those are at fault that do not fit into memory in the mode `weights`."""
    begins: dict[str, _Begin] = {}  # by checksum: drafts share the target's tail
    findings = []
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            for manifest in sorted(description.bundles, key=lambda each: each not in chosen):
                files = [file for file in manifest.files if file.path.endswith(WEIGHTS_SUFFIX)]
                for file in files:
                    if file.sha256 not in begins:
                        least = 0 if begins else _MEASURED_BYTES
                        request = FileRequest(manifest.id, file.path, 0)
                        begins[file.sha256] = await _fetch_begin(connection, request, least)
                if files:
                    rate = max(each.rate for each in begins.values())
                    tensors = {file.path: begins[file.sha256].tensors for file in files}
                    in_full = manifest in chosen
                    offered = description.quantised
                    findings.append(_finding(manifest, offered, tensors, rate, memory, weights, in_full=in_full))
    except TimeoutError:
        detail = f"the link is too slow to read within {_TIMEOUT_S:.0f} s what every draft needs"
        findings.append(Finding("weights", detail, "try again on a faster link", is_minor=True))
    except OutriderError as error:
        detail = "the server does not show what every draft needs"
        findings.append(Finding("weights", detail, str(error), is_minor=True))
    return findings


def _finding(
    manifest: BundleManifest,
    quantised: Sequence[BundleManifest],
    files: Headers,
    rate: float,
    memory: Memory,
    weights: str,
    *,
    in_full: bool,
) -> Finding:
    """`in_full`: in each weights mode, with the time to download it and the memory that is free, which others are told
    where it is too little for them."""
    offered = {each.weights: each for each in quantised if each.draft == manifest.draft}
    needed = {mode: needed_bytes(files, manifest.kind, None, mode, memory.width) for mode in MODES}
    travels = {mode: sum(file.size for file in offered.get(mode, manifest).files) for mode in MODES}
    takes = {
        mode: f"{format_bytes(needed[mode])} of memory, {format_bytes(travels[mode])} to download" for mode in MODES
    }
    modes = "; ".join(f"{mode} {takes[mode]} in {_duration(travels[mode], rate)}" for mode in MODES)
    detail = f"{manifest.draft}: {modes if in_full else takes[weights]}"
    if not memory.free:
        return Finding("weights", detail)
    fitting = [mode for mode in MODES if needed[mode] <= memory.free]
    if in_full or weights not in fitting:
        detail += f"; {format_bytes(memory.free)} of memory are free"
    if weights in fitting:
        return Finding("weights", detail)
    fix = f"use --weights {fitting[0]}" if fitting else "choose another --draft, or end other programs"
    return Finding("weights", detail, fix, is_minor=True)


async def _fetch_begin(connection: Connection, request: FileRequest, least: int) -> _Begin:
    """The header of a file, and `least` more bytes, or as many as come in a second, to measure the rate."""
    data, first = b"", 0
    asked = begun = time.perf_counter()
    async with aclosing(connection.fetch(request)) as chunks:
        async for chunk in chunks:
            if not data:
                first, begun = len(chunk), time.perf_counter()  # the first one took a round trip as well
            data += chunk
            header = min(LENGTH_BYTES + header_length(data), _MOST_HEADER_BYTES)
            passed_s = time.perf_counter() - begun
            if len(data) >= header and (len(data) >= least or passed_s >= _MEASURED_S):
                break
    if len(data) == first:  # one chunk is all that there is
        first, begun = 0, asked
    passed_s = time.perf_counter() - begun
    try:
        tensors = read_header(data[LENGTH_BYTES : LENGTH_BYTES + header_length(data)])
    except ValueError as error:
        raise PeerError(f"its file '{request.path}' is not a weights file") from error
    return _Begin(tensors, (len(data) - first) / passed_s if passed_s > 0 else 0.0)


def _duration(size: int, rate: float) -> str:
    """As text for people; empty links are not divided by."""
    if not rate:
        return "an unknown time"
    seconds = size / rate
    if seconds < 1:
        return "less than 1 s"
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
