"""The options of `outriderd fleet` as frozen data: what is the fleet's own, and what each replica is started with.

It may not know what the supervisor does with them.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from common.address import Address, parse_destination
from common.programs.configuration_file import options_of
from common.protocol.errors import MisuseError
from server.cli_options import (
    AccessFlags,
    FleetFlags,
    ReplicasFlags,
    ReportFlags,
    SessionFlags,
    TargetsFlags,
)
from server.options import ReportOptions, parse_replicas
from server.passes.scheduler import max_decoding_sessions
from server.supervisor.devices import Needs
from server.supervisor.replica import STORE_VARIABLE, Launch
from server.supervisor.scaling import Bounds

_OF_EACH_REPLICA = frozenset(("listen", "metrics", "advertise", "fleet-store", "fleet-list"))
"""Options of `serve` that differ between replicas, or that others shall not read in a list of processes."""

_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """`ray`: the cluster, None for one of this machine. `launch`: of the replica with number 0."""

    bounds: Bounds
    needs: Needs
    ray: Address | None
    launch: Launch
    report: ReportOptions
    is_insecure: bool


def supervisor_options(
    context: typer.Context,
    replica_flags: ReplicasFlags,
    target_flags: TargetsFlags,
    session_flags: SessionFlags,
    access_flags: AccessFlags,
    fleet_flags: FleetFlags,
    report_flags: ReportFlags,
) -> SupervisorOptions:
    """Of the running command. Raises MisuseError for what cannot be."""
    least, most = parse_replicas(replica_flags.replicas)
    targets, limits, access = target_flags.options(), session_flags.options(), access_flags.options()
    if fleet_flags.fleet_list is not None:
        raise MisuseError("a fleet lists its replicas by itself; leave out --fleet-list")
    if access.listen.port and access.listen.port + most - 1 > _HIGHEST_PORT:
        raise MisuseError(
            f"{most} replicas need the ports from {access.listen.port} on; give a lower one with --listen"
        )
    everywhere = access.listen != access.listen.dial_address
    if fleet_flags.fleet_store is not None and fleet_flags.advertise is None and everywhere and not access.listen.port:
        raise MisuseError("replicas with a store tell each other where they are; give --listen a port, or --advertise")
    if ":" in targets.device:
        raise MisuseError(f"Ray chooses the GPUs of a fleet; give --device cuda in place of {targets.device}")
    running = limits.max_running or max_decoding_sessions(limits.pass_tokens)
    return SupervisorOptions(
        Bounds(least, most, min(running, limits.max_sessions)),
        Needs(most, targets.rank_info.ranks, targets.device),
        None if replica_flags.ray is None else parse_destination(replica_flags.ray),
        Launch(
            tuple(_arguments(context)),
            access.listen,
            None if fleet_flags.advertise is None else parse_destination(fleet_flags.advertise),
            dict(_environment(fleet_flags.fleet_store)),
            os.getcwd(),
            session_flags.drain_seconds,
        ),
        report_flags.options(),
        access.insecure,
    )


def _arguments(context: typer.Context) -> Iterator[str]:
    """Every option that `serve` has too, so that a replica's machine needs no configuration."""
    commands: Mapping[str, Any] = vars(context.find_root().command)["commands"]
    for name, option in options_of(commands["serve"]).items():
        value = context.params[option.name]
        if name in _OF_EACH_REPLICA or value is None:
            continue
        if option.is_flag:
            yield from option.opts if value else option.secondary_opts
        else:
            for each in value if option.multiple else (value,):
                yield from (f"--{name}", str(each))


def _environment(store: str | None) -> Iterator[tuple[str, str]]:
    if store is not None:
        yield STORE_VARIABLE, store
    if threads := os.environ.get("OMP_NUM_THREADS"):
        yield "OMP_NUM_THREADS", threads
