"""The options of `outriderd serve` as frozen data, and how durations and targets are written.

It may not know what the server does with them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.address import Address
from common.counted import counted
from common.protocol.errors import MisuseError
from common.protocol.plain import TYPEABLE, is_typeable, plain
from server.rank_info import ALONE, RankInfo

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|)")


_LEAST_CACHE_TOKENS = 64
"""Of a target: with fewer it becomes ready, and can hardly answer anything."""


@dataclass(frozen=True, slots=True)
class ChosenTarget:
    """One target, and its part of the memory for K/V."""

    checkpoint: str  # a directory, a hub id, or the name of a shipped family
    cache_tokens: int  # slots of the K/V pool
    name: str = ""  # by which clients choose it; empty for the checkpoint's own


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Which targets, the first of which is the default, and how all of them run."""

    targets: tuple[ChosenTarget, ...]
    drafts: tuple[str, ...]  # directories or hub ids; each is handed out for every target that it fits
    device: str
    dtype: str
    threads: int  # torch's; 0 leaves it to torch
    quantise: str = ""  # int8, int4, or empty for the weights as they are stored
    batch_invariant: bool | None = None  # batch-invariant passes; None for half precision where the processor allows it
    cuda_graphs: bool | None = None  # whether small passes are replayed where that is possible; None on a GPU
    rank_info: RankInfo = ALONE  # among the ranks that share the targets' weights

    def numerics(self, is_batch_invariant: bool) -> str:
        """In what passes are computed, on which answers depend as on the weights; and `fast` or `batch-invariant` where
        that is not the dtype's default. What was not asked for is chosen as the target is loaded."""
        is_default = is_batch_invariant == self.dtype.endswith("16")
        passes = "" if is_default else "batch-invariant" if is_batch_invariant else "fast"
        return " ".join(filter(None, (self.dtype, self.quantise, passes)))


@dataclass(frozen=True, slots=True)
class Pace:
    """The least that a pass, each packed token of it, and a level drafted on the server cost, in seconds; and what each
    position of the context that it reads, and each score of a token with such a position, add to a pass."""

    per_pass: float = 0.0
    per_token: float = 0.0
    per_level: float = 0.0
    per_read: float = 0.0
    per_score: float = 0.0

    def cost(self, tokens: int, read: int = 0, scores: int = 0) -> float:
        """The least seconds of a pass over `tokens` packed tokens, with so many positions read and scores computed."""
        return max(self.per_pass, self.per_token * tokens) + self.per_read * read + self.per_score * scores


SHARE_PREFIXES = ("client", "server", "never")


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
    share_prefixes: str = SHARE_PREFIXES[0]  # whose sessions share K/V of common prefixes


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
class FleetOptions:
    """The replicas that this server is one of; `store` is the URL of what they share, `listed` a file with their
    addresses in place of it, and both are None for a server that is alone. `advertised` is where clients dial it, None
    for where it listens."""

    store: str | None = None
    advertised: Address | None = None
    listed: Path | None = None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    target: TargetOptions
    sessions: SessionOptions
    access: AccessOptions
    drain_seconds: float
    report: ReportOptions = ReportOptions()
    fleet: FleetOptions = FleetOptions()


def parse_replicas(text: str) -> tuple[int, int]:
    """The least and the most replicas in `R` or `MIN:MAX`. Raises MisuseError for anything else."""
    numbers = text.split(":")
    if len(numbers) > 2 or not all(each.isascii() and each.isdigit() for each in numbers):
        raise MisuseError(
            f"'{plain(text)}' is no number of replicas; write one such as 3, or the least and most as 2:8"
        )
    least, most = int(numbers[0]), int(numbers[-1])
    if not 1 <= least <= most:
        raise MisuseError(f"there cannot be {text} replicas; the least is 1, and the most no less than the least")
    return least, most


def parse_target(text: str) -> tuple[str, str]:
    """The name, empty if none is given, and the checkpoint in `NAME=CHECKPOINT` or `CHECKPOINT`. Raises MisuseError for
    a name that clients could not type."""
    name, separator, checkpoint = text.partition("=")
    if not separator or "/" in name or Path(text).expanduser().is_dir():
        return "", text
    if not is_typeable(name):
        raise MisuseError(f"a target cannot be named '{plain(name)}'; {TYPEABLE}")
    return name, checkpoint


def split_cache_tokens(given: Sequence[int], targets: int) -> list[int]:
    """The K/V tokens of each target: its own number, or its part of a single one. Raises MisuseError for any other
    count of numbers, and for numbers that are too small."""
    if len(given) not in (1, targets):
        raise MisuseError(
            f"--cache-tokens was given {len(given)} times for {counted(targets, 'target')}; give it once, to be "
            "divided equally, or once for each target"
        )
    shares = list(given) if len(given) == targets else [given[0] // targets] * targets
    if min(shares) < _LEAST_CACHE_TOKENS:
        raise MisuseError(
            f"--cache-tokens leaves a target {min(shares)}, too few for a prompt and an answer; give each target at "
            f"least {_LEAST_CACHE_TOKENS}"
        )
    return shares


def parse_duration(text: str) -> float:
    """Seconds in `30ms`, `1.5s` or, in milliseconds, `30`. Raises MisuseError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise MisuseError(f"'{text}' is no duration; write milliseconds, such as 30ms or 0.1ms")
    value, unit = match.groups()
    return float(value) if unit == "s" else float(value) / 1000
