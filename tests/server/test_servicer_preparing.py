"""What a servicer does while a constraint is compiled, for the stream that asked and for others."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from common.protocol.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Constraint,
    Extend,
    FailureCode,
    Finished,
    FinishReason,
    FromClient,
    Grow,
    Open,
    Opened,
    Ping,
    Pong,
    Settings,
)
from server.constraint_compiler import Compile, ConstraintCompiler
from server.servicer import MAX_HELD, STANDS, Servicer
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


async def test_a_stream_answers_pings_while_its_constraint_is_compiled(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    """Its client would take it for broken."""
    servicer, turns, goes_on = busy

    async def says() -> AsyncGenerator[FromClient]:
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, Settings(5))
        yield Cancel(0)
        yield Extend(1, 2, (3,), Settings(5, constraint=A))
        await turns.until_asked(1)
        yield Ping(7)
        await asyncio.Event().wait()

    async with servicer.generate(says(), (), PEER) as stream, asyncio.timeout(30):
        told = [await anext(aiter(stream)) for _ in range(3)]
        assert [type(each) for each in told] == [Opened, Finished, Pong]
        assert told[-1] == Pong(7)
        assert not goes_on.is_set()


async def test_an_open_hears_that_its_stream_stands_while_its_constraint_is_compiled(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    """A client that resumes sends no Ping before it has heard anything."""
    servicer, _, goes_on = busy
    async with servicer.generate(opening(A), (), PEER) as stream, asyncio.timeout(30):
        assert await anext(aiter(stream)) == STANDS
        assert not goes_on.is_set()
        goes_on.set()
        assert isinstance(await anext(aiter(stream)), Opened)


async def test_what_comes_behind_a_constraint_waits_for_it_in_order(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    servicer, turns, goes_on = busy

    async def says() -> AsyncGenerator[FromClient]:
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, Settings(5, constraint=A))
        await turns.until_asked(1)
        yield Cancel(0)
        yield Extend(1, 2, (3,), Settings(5, constraint=A))
        yield Cancel(1)
        goes_on.set()

    async with servicer.generate(says(), (), PEER) as stream, asyncio.timeout(30):
        told = [each async for each in heard(stream)]
    assert [type(each) for each in told] == [Opened, Finished, Finished]
    assert [(each.turn, each.reason) for each in told if isinstance(each, Finished)] == [
        (turn, FinishReason.CANCELLED) for turn in (0, 1)
    ]


async def test_little_is_held_of_what_comes_behind_a_constraint(
    busy: tuple[Servicer, Turns, threading.Event],
) -> None:
    servicer, turns, goes_on = busy
    read = 0

    async def floods() -> AsyncGenerator[FromClient]:
        nonlocal read
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, Settings(5, constraint=A))
        await turns.until_asked(1)
        while not goes_on.is_set():
            read += 1
            yield Grow(0, 2, ())

    async with servicer.generate(floods(), (), PEER):
        await turns.until_asked(1)
        before = -1
        while before != read or not read:
            before = read
            for _ in range(10):
                await asyncio.sleep(0)
    assert read == MAX_HELD + 1
