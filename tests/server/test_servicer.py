"""Streams that end before they become sessions."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from common.address import Address
from common.protocol.messages import Failed, FromClient
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


def make_servicer(standing: Callable[[], Standing] = Standing) -> Servicer:
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "")
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
