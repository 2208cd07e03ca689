"""Assembles the daemon from the operator's options, up to a bound port.

It may not know how any part works, nor when the daemon starts and stops.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry

from common.address import Address
from common.rpc.channel import INCOMING_CONNECTIONS, NO_COMPRESSION, SERVER_OPTIONS
from common.rpc.credentials import warn_of_readable
from common.rpc.service import SERVICE_NAME, register
from server.engine import Engine
from server.events import Event, EventListener
from server.models.draft_models import load_exporters
from server.models.offer import describe, make_offer
from server.models.server_drafters import DrafterPlacement, StateFedDrafterFactory
from server.observe import log
from server.observe.health_service import HealthService
from server.observe.metrics import Metrics, read, read_calls
from server.observe.metrics_port import MetricsPort, read_on
from server.options import ServeOptions
from server.passes.server_drafting import MAX_SERVER_DRAFTERS
from server.passes.state_maker import StateMaker
from server.passes.target import Target, load_target
from server.security.access import open_port, port_credentials
from server.security.call_gate import CallGate
from server.security.call_pools import CallPools
from server.security.connections import max_connections
from server.security.memory_ceiling import Ceiling
from server.security.reset_call import track_task_parents
from server.security.tokens import Tokens, read_tokens
from server.servicer import Servicer
from server.sessions.admission import ServingLimits
from server.sessions.quotas import Quotas
from server.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Assembled:
    """A server that is ready to start."""

    server: grpc.aio.Server
    engine: Engine
    health: HealthService
    address: Address
    ceiling: Ceiling
    metrics: MetricsPort | None


def assemble(options: ServeOptions) -> Assembled:
    """Needs a running event loop. Raises MisuseError where something does not fit."""
    # First what an operator may have got wrong, then what takes long to load. A client that connects early waits.
    credentials = port_credentials(options.access)
    tokens = read_tokens(options.access.token_file, options.access.tokens_file)
    warn_of_readable(options.access.token_file, options.access.tokens_file, options.access.key)
    pools, connections = CallPools(on_event=log.handle_event), max_connections()
    server = _make_server(CallGate(tokens, pools), connections)
    address = open_port(server, options.access.listen, credentials)
    registry, listen = CollectorRegistry(), options.report.metrics
    metrics = None if listen is None else MetricsPort(listen, registry, options.access.insecure)
    engine, ceiling = _add_outrider(server, options, tokens, registry, pools, connections)
    health = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection((SERVICE_NAME, HEALTH_NAME, reflection.SERVICE_NAME), server)
    return Assembled(server, engine, health, address, ceiling, metrics)


def _make_server(gate: CallGate, connections: int) -> grpc.aio.Server:
    track_task_parents(asyncio.get_running_loop())
    options = (*SERVER_OPTIONS, (INCOMING_CONNECTIONS, connections))
    return grpc.aio.server(interceptors=[gate], options=options, compression=NO_COMPRESSION)


def _add_outrider(
    server: grpc.aio.Server,
    options: ServeOptions,
    tokens: Tokens | None,
    registry: CollectorRegistry,
    pools: CallPools,
    connections: int,
) -> tuple[Engine, Ceiling]:
    offer = make_offer(options.target.target, options.target.drafts)
    capacity = min(options.target.cache_tokens, options.sessions.max_sessions * offer.card.context)
    target = load_target(
        str(offer.directory),
        device=options.target.device,
        dtype=options.target.dtype,
        capacity=capacity,
        threads=options.target.threads,
        keep_hidden=offer.needs_hidden,
        taps=offer.taps,
        quantise=options.target.quantise,
    )
    maker = StateMaker(target.model.pool, load_exporters(offer.draft_models, target.model))
    terms = offer.terms(options.sessions, capacity, maker.kinds)
    site = DrafterPlacement(options.target.device, options.target.dtype, terms.context, terms.vocab_size)
    asked = options.sessions
    limits = ServingLimits(asked.max_sessions, asked.pass_tokens, asked.lease_seconds, asked.max_running)
    metrics = Metrics(registry, offer.card.model)
    quotas = Quotas({} if tokens is None else tokens.allowances)
    sessions = Sessions(terms, limits, capacity, quotas, _to_all(metrics.handle_event, log.handle_event))
    metrics.add_counted(read_on(asyncio.get_running_loop(), partial(read, sessions)))
    metrics.add_calls(read_on(asyncio.get_running_loop(), partial(read_calls, pools)))
    drafter_factory = StateFedDrafterFactory(offer.draft_models, maker, site)
    engine = Engine(sessions, target, options.sessions.pace, maker, drafter_factory)
    bundle_store = offer.bundle_store()
    register(Servicer(describe(offer.card, terms, bundle_store), bundle_store, engine, tokens), server)
    return engine, _ceiling_of(target, options.target.cache_tokens, capacity, limits, connections)


def _to_all(*listeners: EventListener) -> EventListener:
    def on_event(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return on_event


def _ceiling_of(target: Target, asked: int, capacity: int, limits: ServingLimits, connections: int) -> Ceiling:
    return Ceiling(
        target.weights_bytes,
        target.cache_bytes,
        capacity,
        asked - capacity,
        limits.max_sessions,
        min(limits.running, limits.max_sessions),
        connections,
        MAX_SERVER_DRAFTERS,
    )
