"""Streams that end before they become sessions."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import pytest

from common.address import Address
from common.protocol.constraint import Constrain, no_constraints
from common.protocol.errors import PeerError
from common.protocol.messages import PROTOCOL_VERSION, Constraint, Failed, FailureCode, FromClient, Open, Settings
from common.protocol.terms import Terms
from common.rpc.description import ServerDescription
from server.engine import Engine
from server.models.bundles import BundleStore
from server.options import Pace
from server.servicer import Servicer, Standing
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.fake_target import VOCAB, FakeTarget


async def silence() -> AsyncGenerator[FromClient]:
    await asyncio.Event().wait()
    yield  # type: ignore[misc]


async def nothing() -> AsyncGenerator[FromClient]:
    return
    yield


@dataclass
class FakeServed:
    engine: Engine
    description: ServerDescription


def make_servicer(standing: Callable[[], Standing] = Standing, constrain: Constrain = no_constraints) -> Servicer:
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "", constrain)
    engine = Engine(Sessions(terms, ServingLimits(4, 64), 500), FakeTarget(), Pace())
    description = ServerDescription(1, "0", "model", "f", VOCAB, 400, 64, (), (), (), ())
    return Servicer([FakeServed(engine, description)], BundleStore(()), first_frame_seconds=0.01, standing=standing)


async def test_a_stream_without_a_first_frame_is_told_and_ended() -> None:
    async with make_servicer().generate(silence(), ()) as stream:
        (failed,) = [message async for message in stream]
    assert isinstance(failed, Failed)
    assert failed.message == "no Open came within 0.01 seconds"


async def test_a_stream_that_ends_before_it_begins_ends_without_a_word() -> None:
    async with make_servicer().generate(nothing(), ()) as stream:
        assert [message async for message in stream] == []


def test_every_description_says_how_loaded_the_server_is_then() -> None:
    loads = iter((0.25, 0.5))
    others = (Address("10.0.0.1", 7070),)
    servicer = make_servicer(lambda: Standing(next(loads), others))
    described = [servicer.describe(""), servicer.describe("model")]
    assert [(each.load, each.replicas) for each in described] == [(0.25, others), (0.5, others)]


class Refusing:
    """Compiles nothing, and says in which thread it was asked."""

    def __init__(self) -> None:
        self.threads = list[threading.Thread]()

    def __call__(self, constraint: Constraint | None) -> None:
        if constraint is not None:
            self.threads.append(threading.current_thread())
            raise PeerError("it cannot be compiled", FailureCode.INVALID)


@pytest.mark.parametrize(
    ("constraint", "message", "compiled"),
    [
        (Constraint("regex", "("), "it cannot be compiled", 1),
        (Constraint("xml", "("), "unknown grammar 'xml'; this server knows json_schema, regex, lark", 0),
    ],
)
async def test_constraints_are_compiled_beside_the_passes_and_only_what_may_be(
    constraint: Constraint, message: str, compiled: int
) -> None:
    async def opening() -> AsyncGenerator[FromClient]:
        settings = Settings(5, constraint=constraint)
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, settings)
        await asyncio.Event().wait()

    refusing = Refusing()
    async with make_servicer(constrain=refusing).generate(opening(), ()) as stream:
        (failed,) = [each async for each in stream]
    assert isinstance(failed, Failed)
    assert (failed.message, len(refusing.threads)) == (message, compiled)
    assert threading.main_thread() not in refusing.threads
