"""The options of `outriderd serve` as frozen data, and how durations are written.

It may not know what the server does with them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from common.address import Address
from common.protocol.errors import MisuseError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|)")


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Which target, and how it runs."""

    target: str  # a directory, a hub id, or the name of a shipped family
    drafts: tuple[str, ...]  # directories or hub ids
    device: str
    dtype: str
    threads: int  # torch's; 0 leaves it to torch
    cache_tokens: int  # slots of the K/V pool
    quantise: str = ""  # int8, int4, or empty for the weights as they are stored


@dataclass(frozen=True, slots=True)
class Pace:
    """The least that a pass, each packed token of it, and a level drafted on the server cost, in seconds."""

    per_pass: float = 0.0
    per_token: float = 0.0
    per_level: float = 0.0

    def cost(self, tokens: int) -> float:
        """The least seconds of a pass over `tokens` packed tokens."""
        return max(self.per_pass, self.per_token * tokens)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How sessions are served."""

    idle: str
    run_ahead: int
    pass_tokens: int
    max_sessions: int
    pace: Pace
    lease_seconds: float = 0.0
    max_running: int | None = None  # answers at a time; None for as many as decode in every pass


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may connect."""

    listen: Address
    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    token_file: Path | None
    insecure: bool
    tokens_file: Path | None = None


LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What the server reports: the format of its log, and a port for Prometheus."""

    log: str = LOG_FORMATS[0]
    metrics: Address | None = None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    target: TargetOptions
    sessions: SessionOptions
    access: AccessOptions
    drain_seconds: float
    report: ReportOptions = ReportOptions()


def parse_duration(text: str) -> float:
    """Seconds in `30ms`, `1.5s` or, in milliseconds, `30`. Raises MisuseError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise MisuseError(f"'{text}' is no duration; write milliseconds, such as 30ms or 0.1ms")
    value, unit = match.groups()
    return float(value) if unit == "s" else float(value) / 1000
