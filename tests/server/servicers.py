"""A servicer over a fake target, streams that open a session, and what they hear."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass

from common.protocol.constraint import Constrain, no_constraints
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Constraint,
    Failed,
    FromClient,
    FromServer,
    Open,
    Pong,
    Settings,
)
from common.protocol.terms import Terms
from common.rpc.description import ServerDescription
from server.engine import Engine
from server.models.bundles import BundleStore
from server.options import Pace
from server.security.tokens import NOBODY
from server.servicer import ReplicaStatus, Servicer
from server.sessions.outgoing_queue import OutgoingQueue
from server.sessions.quotas import Allowance, Quotas
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.fake_target import VOCAB, FakeTarget

PEER = "ipv4:127.0.0.1:5"


@dataclass
class FakeServed:
    engine: Engine
    description: ServerDescription


def make_servicer(
    standing: Callable[[], ReplicaStatus] = ReplicaStatus,
    constrain: Constrain = no_constraints,
    quotas: Quotas = Quotas({}),  # noqa: B008
) -> Servicer:
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "", constrain)
    engine = Engine(Sessions(terms, ServingLimits(4, 64, 60.0), 500, quotas), FakeTarget(), Pace())
    description = ServerDescription(1, "0", "model", "f", VOCAB, 400, 64, (), (), (), ())
    return Servicer([FakeServed(engine, description)], BundleStore(()), first_frame_seconds=0.01, standing=standing)


async def opening(constraint: Constraint | None, session: str = "a session's name") -> AsyncGenerator[FromClient]:
    yield Open(PROTOCOL_VERSION, "f", session, 0, (1, 2), 2, Settings(5, constraint=constraint))
    await asyncio.Event().wait()


async def heard(stream: OutgoingQueue) -> AsyncIterator[FromServer]:
    """All but signs of life."""
    async for message in stream:
        if not isinstance(message, Pong):
            yield message


def few(requests: int) -> Quotas:
    """Of clients without a token."""
    return Quotas({NOBODY: Allowance(requests_per_minute=requests)})


async def refusals(servicer: Servicer, session: str, times: int) -> list[str]:
    """The codes with which so many Opens fail, each with a constraint of its own."""
    told = list[str]()
    for number in range(times):
        opened = opening(Constraint("regex", "a" * (number + 1)), session)
        async with servicer.generate(opened, (), PEER) as stream:
            (failed,) = [each async for each in heard(stream)]
        assert isinstance(failed, Failed)
        told.append(failed.code)
    return told
