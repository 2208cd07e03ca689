"""What a servicer does while a constraint is compiled, for the stream that asked and for others."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from common.protocol.messages import (
    Cancel,
    Constraint,
    FailureCode,
    Finished,
    FromClient,
    Opened,
)
from server.constraint_compiler import Compile, ConstraintCompiler
from server.servicer import STANDS, Servicer
from tests.server.servicers import PEER, few, heard, make_servicer, opening, refusals

A = Constraint("regex", "a")


class Turns(ConstraintCompiler):
    """Counts who has asked for a turn: the one that has it, and those that wait behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def turn_of(self, caller: str) -> AbstractAsyncContextManager[Compile]:
        self.asked += 1
        return super().turn_of(caller)

    async def until_asked(self, times: int) -> None:
        while self.asked < times:
            await asyncio.sleep(0.001)


@pytest.fixture
def busy() -> Iterator[tuple[Servicer, Turns, threading.Event]]:
    """A server of two requests a minute, whose constraints are compiled once the event is set."""
    goes_on, turns = threading.Event(), Turns()

    def constrain(constraint: Constraint | None) -> None:
        if constraint is not None and threading.current_thread() is not threading.main_thread():
            assert goes_on.wait(30)

    servicer = make_servicer(constrain=constrain, quotas=few(2))
    servicer._compiler = turns
    yield servicer, turns, goes_on
    goes_on.set()


async def test_a_client_that_goes_away_before_its_constraint_is_compiled_has_asked_for_nothing(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    servicer, turns, goes_on = busy
    a = Constraint("regex", "a")
    async with servicer.generate(opening(a, "the first session"), (), PEER) as first:
        await turns.until_asked(1)
        async with servicer.generate(opening(a, "the second session"), (), PEER):
            await turns.until_asked(2)
        goes_on.set()
        assert isinstance(await anext(heard(first)), Opened)
    async with servicer.generate(opening(a, "the third session"), (), PEER) as third:
        assert isinstance(await anext(heard(third)), Opened)


async def test_what_is_refused_anyway_is_refused_while_another_constraint_is_compiled(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    servicer, turns, _ = busy
    async with servicer.generate(opening(Constraint("regex", "a"), "the first session"), (), PEER):
        await turns.until_asked(1)
        async with asyncio.timeout(10):
            assert await refusals(servicer, "short", 1) == [FailureCode.INVALID]
    assert turns.asked == 1


async def test_a_client_hears_that_its_stream_stands_while_its_constraint_is_compiled(
    busy: tuple[Servicer, Turns, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take a silent one for broken."""
    monkeypatch.setattr("server.servicer._STANDS_EVERY_S", 0.0)
    servicer, _, goes_on = busy
    async with servicer.generate(opening(A), (), PEER) as stream, asyncio.timeout(30):
        assert [await anext(aiter(stream)) for _ in range(2)] == [STANDS, STANDS]
        goes_on.set()
        assert isinstance(await anext(heard(stream)), Opened)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stream._waiting, "nothing more is said once it is compiled"


async def test_nothing_more_is_read_while_a_constraint_is_compiled(
    busy: tuple[Servicer, Turns, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client could have the server hold any number of frames."""
    monkeypatch.setattr("server.servicer._STANDS_EVERY_S", 0.0)
    servicer, _, goes_on = busy
    read = list[FromClient]()

    async def says() -> AsyncGenerator[FromClient]:
        async for message in opening(A):
            yield message
            break
        read.append(Cancel(0))
        yield read[0]
        await asyncio.Event().wait()

    async with servicer.generate(says(), (), PEER) as stream, asyncio.timeout(30):
        assert [await anext(aiter(stream)) for _ in range(10)] == 10 * [STANDS]
        assert not read
        goes_on.set()
        assert [type(await anext(heard(stream))) for _ in range(2)] == [Opened, Finished]
