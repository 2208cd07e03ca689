"""The rows of `sizes`: what was measured of a target with a draft model beside what the formulas say. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from common.weight_only.modes import GROUP, INT4, INT8, QUANTISED, SCALE_BYTES
from netem.experiments.one_device.dimensions import (
    DraftDimensions,
    TargetDimensions,
    bundle_bytes,
    client_bytes,
    server_bytes,
)

CONTEXT = 4096
"""Tokens of a client's longest sequence, and of a server's K/V."""

WEIGHT_BYTES: Mapping[str, float] = {INT8: 1.0, INT4: QUANTISED[INT4] / 8 + 2 * SCALE_BYTES / GROUP}
"""Bytes of a quantised weight and its share of scales, of which int8 has hardly any."""

NUMBER_BYTES: Mapping[str, int] = {"bfloat16": 2, "float32": 4}
STORED = "bfloat16"
"""The dtype of checkpoints and draft models on disk."""

_MB = 1e6
_BITS = 8


@dataclass(frozen=True, slots=True)
class ClientNumbers:
    """resident_bytes, peak_bytes: beyond a process without weights. level_s: of one core, for a drafted level.
    ready_s: of one core, from the start of the process to a drafter that can draft."""

    resident_bytes: int
    peak_bytes: int
    bundle_bytes: int
    level_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class ServerNumbers:
    """resident_bytes, peak_bytes: beyond a process without weights. pass_s: of one core, for a pass over one token."""

    resident_bytes: int
    peak_bytes: int
    pass_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """What a row is about. weights: of the client; dtype: of other numbers, at both ends."""

    target: TargetDimensions
    draft: DraftDimensions
    weights: str
    dtype: str

    @property
    def client_bytes(self) -> int:
        return client_bytes(self.target, self.draft, CONTEXT, NUMBER_BYTES[self.dtype], WEIGHT_BYTES.get(self.weights))

    @property
    def bundle_bytes(self) -> int:
        return bundle_bytes(self.target, self.draft, WEIGHT_BYTES.get(self.weights, NUMBER_BYTES[STORED]))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of results.json. What ends in `_computed` is by the formulas of docs/scaling.md. `measured` is about the
    client's columns, `server_measured` about the server's; what was not measured is computed, or None. answer:
    'identical', 'near-tie' or 'different' from generate's, empty where there is none."""

    target: str
    draft: str
    weights: str
    dtype: str
    measured: bool
    client_rss_mb: float
    client_peak_mb: float | None
    client_mb_computed: float
    bundle_mb: float
    bundle_mb_computed: float
    bundle_link_s: float
    level_ms: float | None
    ready_s: float | None
    server_measured: bool
    server_rss_mb: float
    server_peak_mb: float | None
    server_mb_computed: float
    pass_ms: float | None
    answer: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def make_row(
    place: Place,
    drafts: Sequence[DraftDimensions],
    client: ClientNumbers | None,
    server: ServerNumbers | None,
    answer: str,
    link_bits_per_s: float,
) -> Row:
    """drafts: all that the server holds. client, server: None where they were not measured."""
    held = server_bytes(place.target, drafts, CONTEXT, NUMBER_BYTES[place.dtype])
    bundle = place.bundle_bytes if client is None else client.bundle_bytes
    return Row(
        target=place.target.name,
        draft=place.draft.name,
        weights=place.weights,
        dtype=place.dtype,
        measured=client is not None,
        client_rss_mb=_megabytes(place.client_bytes if client is None else client.resident_bytes),
        client_peak_mb=None if client is None else _megabytes(client.peak_bytes),
        client_mb_computed=_megabytes(place.client_bytes),
        bundle_mb=_megabytes(bundle),
        bundle_mb_computed=_megabytes(place.bundle_bytes),
        bundle_link_s=round(_BITS * bundle / link_bits_per_s, 1),
        level_ms=None if client is None else round(1000 * client.level_s, 2),
        ready_s=None if client is None else round(client.ready_s, 2),
        server_measured=server is not None,
        server_rss_mb=_megabytes(held if server is None else server.resident_bytes),
        server_peak_mb=None if server is None else _megabytes(server.peak_bytes),
        server_mb_computed=_megabytes(held),
        pass_ms=None if server is None else round(1000 * server.pass_s, 1),
        answer=answer,
    )


def ratios(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Measured over computed memory and bundle sizes of the measured rows. `lookup` has no weights to compute."""
    clients = [row for row in rows if row.measured and row.draft != "lookup"]
    servers = {(row.target, row.dtype): row for row in rows if row.server_measured}
    return {
        "client": [row.client_rss_mb / row.client_mb_computed for row in clients],
        "bundle": [row.bundle_mb / row.bundle_mb_computed for row in clients],
        "server": [row.server_rss_mb / row.server_mb_computed for row in servers.values()],
    }


def in_words(values: Sequence[float]) -> str:
    if not values:
        return "no row"
    return f"{median(values):.2f} in the median, {min(values):.2f} to {max(values):.2f}"


def _megabytes(size: float) -> float:
    return round(size / _MB, 1)
