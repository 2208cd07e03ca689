"""The command-line options of `outriderd serve`, grouped in dataclasses, and what they mean together.

Only typer is imported at once, so that --help is quick.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from common.address import Address, parse_address, parse_destination
from common.device import MOST_THREADS, device_named
from common.protocol.errors import MisuseError
from server.options import (
    LOG_FORMATS,
    SHARE_PREFIXES,
    AccessOptions,
    ChosenTarget,
    FleetOptions,
    Pace,
    ReportOptions,
    SessionOptions,
    TargetOptions,
    parse_duration,
    parse_target,
    split_cache_tokens,
)
from server.rank_info import find_rank_info

_CACHE_TOKENS = 32768

Target = Annotated[str, typer.Option(help="A checkpoint's directory, a hub id, or `demo`.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]CHECKPOINT",
        help="A checkpoint's directory, a hub id, or `demo`; may be repeated. Clients choose a target by NAME (the "
        "checkpoint's own if absent), and get the first if they name none.",
    ),
]
Draft = Annotated[
    list[str] | None,
    typer.Option(
        help="A draft model, which is handed out for each target that it fits; may be repeated. Those of "
        "`demo` go by their names."
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")]
Dtype = Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")]
BatchInvariant = Annotated[
    bool | None,
    typer.Option(
        "--batch-invariant/--fast",
        help="Whether a token's numbers are the same whatever shares its pass, so that low precision alters no answer. "
        "[default: batch-invariant in bfloat16 and float16 where the processor allows it]",
    ),
]
CudaGraphs = Annotated[
    bool | None,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs",
        help="Replay small passes as CUDA graphs, with --fast or in a dtype without batch-invariant passes. Takes "
        "device memory in addition to --cache-tokens. [default: on a GPU]",
    ),
]
Quantize = Annotated[str, typer.Option(help="Quantise weights to int8 or int4, if the target's have more bits.")]
TensorParallel = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Divide each target among N devices of this machine. [default: 1]"),
]
Threads = Annotated[int, typer.Option(min=0, max=MOST_THREADS, help="Torch threads; 0 for torch's default.")]
CacheTokens = Annotated[
    list[int] | None,
    typer.Option(
        min=1,
        help="Tokens of K/V for all sessions together, divided equally among targets; or one number for each target, "
        f"in their order. [default: {_CACHE_TOKENS}]",
    ),
]

Idle = Annotated[
    str, typer.Option(help="When sessions are verified: auto, assist, eager, patient; baselines: colocated, lockstep.")
]
RunAhead = Annotated[
    int,
    typer.Option(
        min=1, help="Tokens to decode beyond what the client has acknowledged; raised on links with a long round trip."
    ),
]
PassTokens = Annotated[int, typer.Option(min=4, help="Most tokens of one pass of a target.")]
MaxSessions = Annotated[
    int,
    typer.Option(min=1, help="Concurrent sessions of all targets; further requests are rejected with a retry time."),
]
MaxRunning = Annotated[
    int | None,
    typer.Option(min=1, help="Answers that a target decodes concurrently; by default three quarters of --pass-tokens."),
]
Lease = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long a disconnected session is kept for resumption.")
]
SharePrefixes = Annotated[
    str,
    typer.Option(
        help="Who shares the K/V of a prompt's beginning: `client` for the sessions of one bearer token, `server` for "
        "all sessions, `never` for none."
    ),
]
DrainSeconds = Annotated[float, typer.Option(min=0, help="Grace period for running answers at shutdown.")]
PacePass = Annotated[str, typer.Option(metavar="MS", help="Simulated minimum duration of a pass.")]
PaceToken = Annotated[str, typer.Option(metavar="MS", help="Simulated duration per token of a pass.")]
PaceDraft = Annotated[str, typer.Option(metavar="MS", help="Simulated minimum duration of a tree level drafted here.")]

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 picks a free one.")]
TlsCert = Annotated[Path | None, typer.Option(help="The server's certificate, PEM.")]
TlsKey = Annotated[Path | None, typer.Option(help="Its private key, PEM.")]
ClientCa = Annotated[Path | None, typer.Option(help="Ask clients for a certificate signed by this.")]
TokenFile = Annotated[Path | None, typer.Option(help="Ask clients for the bearer token in this file.")]
TokensFile = Annotated[
    Path | None, typer.Option(help="Ask clients for one of the bearer tokens in this TOML file, each with its quota.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow plain text off loopback.")]

Metrics = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Show Prometheus metrics there; port 0 picks a free one.")
]
FleetStore = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The Redis or Valkey that the replicas of a fleet share, so that clients find all of them and quotas are "
        "counted together.",
    ),
]
FleetList = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where there is no store: a file with HOST:PORT of each replica in a line, read again when it changes.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where clients dial this replica of a fleet; by default where it listens."),
]

Log = Annotated[str, typer.Option(help="text, or json: one object per line, with session events.")]

Replicas = Annotated[
    str,
    typer.Option(metavar="R or MIN:MAX", help="How many; with two numbers as many as waiting answers ask for."),
]
Ray = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The Ray cluster to use; by default one is started on this machine."),
]


@dataclass(frozen=True, slots=True)
class TargetsFlags:
    """Which targets, and how they run; each field is an option."""

    target: Targets
    draft: Draft = None
    device: Device = "cpu"
    dtype: Dtype = "float32"
    quantize: Quantize = ""
    batch_invariant: BatchInvariant = None
    cuda_graphs: CudaGraphs = None
    tensor_parallel: TensorParallel = None
    threads: Threads = 0
    cache_tokens: CacheTokens = None

    def options(self) -> TargetOptions:
        """Raises MisuseError for a name or a division of the cache that cannot be."""
        named = [parse_target(target) for target in self.target or ()]
        shares = split_cache_tokens(self.cache_tokens or [_CACHE_TOKENS], len(named)) if named else []
        return TargetOptions(
            tuple(
                ChosenTarget(checkpoint, tokens, name) for (name, checkpoint), tokens in zip(named, shares, strict=True)
            ),
            tuple(self.draft or ()),
            device_named(self.device),
            self.dtype,
            self.threads,
            self.quantize,
            self.batch_invariant,
            self.cuda_graphs,
            find_rank_info(self.tensor_parallel, os.environ),
        )


@dataclass(frozen=True, slots=True)
class CheckedTargetsFlags(TargetsFlags):
    """For a doctor, which also runs where no target is named or the configuration that names it is at fault: there are
    no targets then."""

    target: Targets = None


@dataclass(frozen=True, slots=True)
class SessionFlags:
    """How sessions are served; each field is an option."""

    idle: Idle = "auto"
    run_ahead: RunAhead = 128
    pass_tokens: PassTokens = 512
    max_sessions: MaxSessions = 64
    max_running: MaxRunning = None
    lease: Lease = 120.0
    share_prefixes: SharePrefixes = SHARE_PREFIXES[0]
    drain_seconds: DrainSeconds = 30.0
    pace_pass: PacePass = "0"
    pace_token: PaceToken = "0"
    pace_draft: PaceDraft = "0"

    def options(self) -> SessionOptions:
        """Raises MisuseError for a policy or a duration that is none, and for an unknown way to share."""
        if self.share_prefixes not in SHARE_PREFIXES:
            ways = ", ".join(SHARE_PREFIXES)
            raise MisuseError(f"prefixes cannot be shared by '{self.share_prefixes}'; use one of: {ways}")
        return SessionOptions(
            check_idle(self.idle),
            self.run_ahead,
            self.pass_tokens,
            self.max_sessions,
            Pace(parse_duration(self.pace_pass), parse_duration(self.pace_token), parse_duration(self.pace_draft)),
            self.lease,
            self.max_running,
            self.share_prefixes,
        )


@dataclass(frozen=True, slots=True)
class AccessFlags:
    """Where the server listens, and who may connect; each field is an option."""

    listen: Listen = "127.0.0.1:7070"
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    client_ca: ClientCa = None
    token_file: TokenFile = None
    tokens_file: TokensFile = None
    insecure: Insecure = False

    def options(self) -> AccessOptions:
        """Raises MisuseError for what is no address."""
        return AccessOptions(
            parse_address(self.listen),
            self.tls_cert,
            self.tls_key,
            self.client_ca,
            self.token_file,
            self.insecure,
            self.tokens_file,
        )


@dataclass(frozen=True, slots=True)
class FleetFlags:
    """Which fleet the server belongs to; each field is an option."""

    fleet_store: FleetStore = None
    advertise: Advertise = None
    fleet_list: FleetList = None

    def options(self, listen: Address) -> FleetOptions:
        """Of a server that listens there. Raises MisuseError for an address that no client could dial, and for two
        lists of one fleet."""
        if self.fleet_list is not None and self.fleet_store is not None:
            raise MisuseError("--fleet-store lists the replicas already; leave out --fleet-list")
        if self.advertise is not None and self.fleet_store is None:
            raise MisuseError("--advertise tells clients of a fleet where this replica is; give --fleet-store too")
        if self.advertise is None and self.fleet_store is not None and listen != listen.dial_address:
            raise MisuseError(f"clients cannot dial {listen}; give --advertise with an address of this replica")
        advertised = None if self.advertise is None else parse_destination(self.advertise)
        return FleetOptions(self.fleet_store, advertised, self.fleet_list)


@dataclass(frozen=True, slots=True)
class ReplicasFlags:
    """How many replicas a fleet starts, and where; each field is an option."""

    replicas: Replicas
    ray: Ray = None


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """What the server reports; each field is an option."""

    metrics: Metrics = None
    log: Log = "text"

    def options(self) -> ReportOptions:
        """Raises MisuseError for what is no address, and for an unknown form of log."""
        if self.log not in LOG_FORMATS:
            raise MisuseError(f"there is no log '{self.log}'; use one of: {', '.join(LOG_FORMATS)}")
        return ReportOptions(self.log, None if self.metrics is None else parse_address(self.metrics))


def check_idle(name: str) -> str:
    """Raises MisuseError for a name that no idle policy has."""
    from common.protocol.idle import IDLE_POLICIES

    if name not in IDLE_POLICIES:
        raise MisuseError(f"the idle policy '{name}' is unknown; use one of: {', '.join(IDLE_POLICIES)}")
    return name
