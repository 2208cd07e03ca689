"""Puts the daemon's parts together from the operator's options, up to a bound port.

It may not know how any part works, nor when the daemon begins and ends.
"""

from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from common.address import Address
from common.rpc.channel import NO_COMPRESSION, SERVER_OPTIONS
from common.rpc.credentials import read_token
from common.rpc.service import SERVICE_NAME, register
from server.access import BearerGate, open_port, port_credentials
from server.aides import OwnAides, Site
from server.drafts import load_exporters
from server.engine import Engine
from server.offer import describe, make_offer
from server.options import AccessOptions, ServeOptions
from server.servicer import Servicer
from server.sessions import Bounds, Sessions
from server.state_maker import StateMaker
from server.target import load_target


@dataclass(frozen=True, slots=True)
class Assembled:
    """A server that is ready to start."""

    server: grpc.aio.Server
    engine: Engine
    condition: health.aio.HealthServicer
    address: Address


def assemble(options: ServeOptions) -> Assembled:
    """Needs a running event loop. Raises MisuseError where something does not fit."""
    # What an operator may have got wrong comes first, what takes long to load after it. A client that is early waits.
    credentials = port_credentials(options.access)
    server = _make_server(options.access)
    address = open_port(server, options.access.listen, credentials)
    engine = _add_outrider(server, options)
    condition = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(condition, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return Assembled(server, engine, condition, address)


def _make_server(access: AccessOptions) -> grpc.aio.Server:
    gates = [BearerGate(read_token(access.token_file))] if access.token_file else []
    return grpc.aio.server(interceptors=gates, options=SERVER_OPTIONS, compression=NO_COMPRESSION)


def _add_outrider(server: grpc.aio.Server, options: ServeOptions) -> Engine:
    offer = make_offer(options.target.target, options.target.drafts)
    capacity = min(options.target.cache_tokens, options.sessions.max_sessions * offer.card.context)
    target = load_target(
        str(offer.directory),
        device=options.target.device,
        dtype=options.target.dtype,
        capacity=capacity,
        threads=options.target.threads,
        keep_hidden=offer.needs_hidden,
    )
    maker = StateMaker(target.model.pool, load_exporters(offer.state_drafts, target.model))
    terms = offer.terms(options.sessions, capacity, maker.kinds)
    bounds = Bounds(options.sessions.max_sessions, options.sessions.pass_tokens, options.sessions.lease_seconds)
    site = Site(options.target.device, options.target.dtype, terms.context, terms.vocab_size)
    aides = OwnAides(offer.own_drafts, maker, site)
    engine = Engine(Sessions(terms, bounds, capacity), target, options.sessions.pace, maker, aides)
    shelf = offer.shelf()
    register(Servicer(describe(offer.card, terms, shelf), shelf, engine), server)
    return engine
