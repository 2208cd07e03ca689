"""Assembles the daemon from the operator's options, up to a bound port.

It may not know how any part works, nor when the daemon starts and stops.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry

from common.address import Address
from common.models.placement import parse_device, parse_dtype
from common.rpc.channel import INCOMING_CONNECTIONS, NO_COMPRESSION, SERVER_OPTIONS
from common.rpc.credentials import warn_of_readable
from common.rpc.service import SERVICE_NAME, register
from server.engine import Engine
from server.events import Event, EventListener
from server.fleet.fleet import Fleet, FleetStore
from server.fleet.listed import ListedFleet
from server.fleet.members import Member
from server.models.bundles import BundleStore
from server.models.generation import describe_unapplied, unapplied
from server.models.offer import Offer
from server.models.offers import make_offers
from server.models.target_loader import load_target
from server.observe import log
from server.observe.health_service import HealthService
from server.observe.metrics import Metrics, MetricsSnapshot, read, read_calls
from server.observe.metrics_port import MetricsPort, read_on
from server.options import ServeOptions
from server.passes.target import Target
from server.security.access import open_port, port_credentials
from server.security.call_gate import CallGate
from server.security.call_pools import CallPools
from server.security.connections import max_connections, reserved_descriptors
from server.security.memory_ceiling import Ceiling
from server.security.reset_call import track_task_parents
from server.security.tokens import read_tokens
from server.servicer import ReplicaStatus, Servicer
from server.sessions.quotas import Quotas
from server.sessions.registry import SessionRegistry
from server.target_assembly import AssembledTarget, Shared, assemble_target


@dataclass(frozen=True, slots=True)
class Assembled:
    """A server that is ready to start."""

    server: grpc.aio.Server
    targets: Sequence[AssembledTarget]
    health: HealthService
    address: Address
    ceiling: Ceiling
    metrics: MetricsPort | None
    fleet: Fleet | ListedFleet | None


def assemble(options: ServeOptions, load: Callable[..., Target] = load_target) -> Assembled:
    """Needs a running event loop. `load` loads targets. Raises MisuseError where something does not fit."""
    # First what an operator may have got wrong, then what takes long to load. A client that connects early waits.
    credentials = port_credentials(options.access)
    tokens = read_tokens(options.access.token_file, options.access.tokens_file)
    warn_of_readable(options.access.token_file, options.access.tokens_file, options.access.key)
    pools = CallPools(on_event=log.handle_event)
    connections = max_connections(reserved_descriptors(options.sessions.max_sessions, len(options.target.targets)))
    server = _make_server(CallGate(tokens, pools), connections)
    address = open_port(server, options.access.listen, credentials)
    registry, listen = CollectorRegistry(), options.report.metrics
    metrics = None if listen is None else MetricsPort(listen, registry, options.access.insecure)
    fleet: Fleet | ListedFleet | None = None if options.fleet.listed is None else ListedFleet(options.fleet.listed)
    store = None if options.fleet.store is None else _store(options.fleet.store)
    quotas = Quotas({} if tokens is None else tokens.allowances)
    parse_device(options.target.device)
    parse_dtype(options.target.dtype)
    offers = [offer.with_quantised() for offer in make_offers(options.target)]
    for offer in offers:
        if fields := unapplied(offer.directory):
            model = offer.card.model
            log.note("unapplied generation settings", describe_unapplied(model, fields), model=model, fields=fields)
    registries = list[SessionRegistry]()
    shared = Shared(tuple(offer.card.model for offer in offers), quotas, registries)
    targets = _load_targets(offers, options, shared, registry, pools, load)
    if store is not None:
        advertised = options.fleet.advertised or address
        own = Member(uuid4().hex, advertised, tuple(target.description.identity for target in targets), {})
        fleet = Fleet(store, own, quotas, partial(_sessions_by_client, registries))
    bundles = BundleStore(bundle for offer in offers for bundle in (*offer.bundles, *offer.quantised))
    standing = partial(_standing, registries, options.sessions.max_sessions, fleet)
    register(Servicer(targets, bundles, tokens, standing=standing), server)
    ceiling = Ceiling(tuple(target.memory for target in targets), options.sessions.max_sessions, connections)
    health = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection((SERVICE_NAME, HEALTH_NAME, reflection.SERVICE_NAME), server)
    return Assembled(server, targets, health, address, ceiling, metrics, fleet)


def _make_server(gate: CallGate, connections: int) -> grpc.aio.Server:
    track_task_parents(asyncio.get_running_loop())
    options = (*SERVER_OPTIONS, (INCOMING_CONNECTIONS, connections))
    return grpc.aio.server(interceptors=[gate], options=options, compression=NO_COMPRESSION)


def _store(url: str) -> FleetStore:
    from server.fleet.redis_store import RedisStore  # of an extra

    return RedisStore(url)


def _load_targets(
    offers: Sequence[Offer],
    options: ServeOptions,
    shared: Shared,
    registry: CollectorRegistry,
    pools: CallPools,
    load: Callable[..., Target],
) -> Sequence[AssembledTarget]:
    targets, models = list[AssembledTarget](), shared.models
    metrics, loop = Metrics(registry), asyncio.get_running_loop()
    for offer, chosen, model in zip(offers, options.target.targets, models, strict=True):
        on_event = _to_all(metrics.listener(model), partial(log.handle_event, model=model))
        target = assemble_target(offer, chosen.cache_tokens, options, shared, on_event, load)
        metrics.add_counted(model, read_on(loop, partial(_read, target.engine)))
        targets.append(target)
    metrics.add_calls(models[0], read_on(loop, partial(read_calls, pools)))
    return targets


def _read(engine: Engine) -> MetricsSnapshot:
    return read(engine.sessions, engine.now)


def _sessions_by_client(registries: Sequence[SessionRegistry]) -> Counter[str]:
    return Counter(entry.client for registry in registries for entry in registry.entries)


def _standing(
    registries: Sequence[SessionRegistry], max_sessions: int, fleet: Fleet | ListedFleet | None
) -> ReplicaStatus:
    sessions = sum(len(registry.entries) for registry in registries)
    return ReplicaStatus(sessions / max_sessions, () if fleet is None else fleet.addresses)


def _to_all(*listeners: EventListener) -> EventListener:
    def on_event(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return on_event
