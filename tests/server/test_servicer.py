"""Streams that end before they become sessions."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import cast
from weakref import WeakValueDictionary

import pytest

from common.address import Address
from common.protocol.constraint import Constrain
from common.protocol.errors import PeerError
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Constraint,
    Extend,
    Failed,
    FailureCode,
    FromClient,
    Open,
    Opened,
    Settings,
)
from server.refusal import RefusalReason
from server.security.call_gate import on_stream_end
from server.security.tokens import NOBODY
from server.servicer import ReplicaStatus
from server.sessions.quotas import Allowance, Quotas
from tests.server.servicers import PEER, few, heard, make_servicer, opening, refusals


async def silence() -> AsyncGenerator[FromClient]:
    await asyncio.Event().wait()
    yield  # type: ignore[misc]


async def nothing() -> AsyncGenerator[FromClient]:
    return
    yield


async def test_a_stream_without_a_first_frame_is_told_and_ended() -> None:
    async with make_servicer().generate(silence(), (), PEER) as stream:
        (failed,) = [message async for message in stream]
    assert isinstance(failed, Failed)
    assert failed.message == "no Open came within 0.01 seconds"


async def test_the_gate_is_told_that_a_streams_session_is_over_while_its_messages_are_unread() -> None:
    ended: list[None] = []
    on_stream_end.set(lambda: ended.append(None))
    async with make_servicer().generate(silence(), (), PEER) as stream:
        assert not ended
        async with asyncio.timeout(5):
            while not stream.ended:
                await asyncio.sleep(0.005)
        assert len(ended) == 1


async def test_a_stream_that_has_begun_may_stay_silent() -> None:
    servicer = make_servicer()
    servicer._first_frame_seconds = 0.0
    async with servicer.generate(opening(None), (), PEER) as stream:
        assert isinstance(await anext(heard(stream)), Opened)
        for _ in range(20):  # in which a time that is up would be noticed
            await asyncio.sleep(0)
        assert not stream.ended


async def test_a_stream_that_ends_before_it_begins_ends_without_a_word() -> None:
    async with make_servicer().generate(nothing(), (), PEER) as stream:
        assert [message async for message in stream] == []


def test_every_description_says_how_loaded_the_server_is_then() -> None:
    loads = iter((0.25, 0.5))
    others = (Address("10.0.0.1", 7070),)
    servicer = make_servicer(lambda: ReplicaStatus(next(loads), others))
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
    refusing = Refusing()
    async with make_servicer(constrain=refusing).generate(opening(constraint), (), PEER) as stream:
        (failed,) = [each async for each in heard(stream)]
    assert isinstance(failed, Failed)
    assert (failed.message, len(refusing.threads)) == (message, compiled)
    assert threading.main_thread() not in refusing.threads


async def test_constraints_that_cannot_be_compiled_use_the_quota_up_and_then_nothing_is_compiled() -> None:
    refusing = Refusing()
    servicer, told = make_servicer(constrain=refusing, quotas=few(3)), list[str]()
    for _ in range(6):
        async with servicer.generate(opening(Constraint("regex", "(")), (), PEER) as stream:
            (failed,) = [each async for each in heard(stream)]
        assert isinstance(failed, Failed)
        told.append(failed.code)
    assert told == [FailureCode.INVALID] * 3 + [FailureCode.QUOTA] * 3
    assert len(refusing.threads) == 3
    assert servicer._default.engine.counters.refused == {RefusalReason.QUOTA_REQUESTS: 3}


async def test_an_answer_goes_on_where_the_quota_is_used_up() -> None:
    """Its stream has broken; the client asks for nothing new."""
    compiled = list[Constraint]()

    def constrain(constraint: Constraint | None) -> None:
        if constraint is not None and threading.current_thread() is not threading.main_thread():
            compiled.append(constraint)

    servicer = make_servicer(constrain=constrain, quotas=few(1))
    for _ in range(2):
        async with servicer.generate(opening(Constraint("regex", "a")), (), PEER) as stream:
            assert isinstance(await anext(heard(stream)), Opened)
    async with servicer.generate(opening(Constraint("regex", "b"), "another session's"), (), PEER) as stream:
        (failed,) = [each async for each in heard(stream)]
    assert isinstance(failed, Failed)
    assert failed.code is FailureCode.QUOTA
    assert [each.text for each in compiled] == ["a", "a"]


class Compiling:
    """A `Constrain` that keeps what was compiled beside the passes, and refuses in theirs if it is told to."""

    def __init__(self, refuses_afterwards: bool = False) -> None:
        self.compiled = list[Constraint]()
        self._refuses_afterwards = refuses_afterwards

    def __call__(self, constraint: Constraint | None) -> None:
        if constraint is None:
            return
        if threading.current_thread() is not threading.main_thread():
            self.compiled.append(constraint)
        elif self._refuses_afterwards:
            raise PeerError("it is gone", FailureCode.INVALID)


async def test_nothing_is_compiled_for_a_request_that_is_invalid_anyway() -> None:
    compiling = Compiling()
    servicer = make_servicer(constrain=compiling, quotas=few(1))
    assert await refusals(servicer, "short", 6) == [FailureCode.INVALID] * 6
    assert compiling.compiled == []


async def test_nothing_is_compiled_while_the_server_drains() -> None:
    compiling = Compiling()
    servicer = make_servicer(constrain=compiling)
    servicer._default.engine.sessions.drain()
    assert await refusals(servicer, "another session's", 3) == [FailureCode.DRAINING] * 3
    assert compiling.compiled == []


async def test_nothing_is_compiled_for_a_request_without_room() -> None:
    compiling = Compiling()
    servicer = make_servicer(constrain=compiling, quotas=Quotas({NOBODY: Allowance(max_sessions=1)}))
    async with servicer.generate(opening(None), (), PEER) as stream:
        assert isinstance(await anext(heard(stream)), Opened)
        assert await refusals(servicer, "another session's", 3) == [FailureCode.QUOTA] * 3
    assert compiling.compiled == []
    assert servicer._default.engine.counters.refused == {RefusalReason.QUOTA_SESSIONS: 3}


async def test_a_request_that_fails_although_its_constraint_was_compiled_uses_the_quota_up() -> None:
    compiling = Compiling(refuses_afterwards=True)
    servicer = make_servicer(constrain=compiling, quotas=few(3))
    told = await refusals(servicer, "a session's name", 6)
    assert told == [FailureCode.INVALID] * 3 + [FailureCode.QUOTA] * 3
    assert len(compiling.compiled) == 3


async def test_requests_at_the_same_time_use_the_quota_up_before_more_is_compiled() -> None:
    compiling = Compiling()
    servicer = make_servicer(constrain=compiling, quotas=few(2))

    async def first_message(number: int) -> str:
        opened = opening(Constraint("regex", "a" * number), f"the session number {number}")
        async with servicer.generate(opened, (), PEER) as stream:
            return type(await anext(heard(stream))).__name__

    told = await asyncio.gather(*map(first_message, range(1, 7)))
    assert sorted(told) == ["Failed"] * 4 + ["Opened"] * 2
    assert len(compiling.compiled) == 2


EXTENDED = Extend(1, 2, (3,), Settings(5, constraint=Constraint("regex", "b")))


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [
        (Extend(0, 2, (3,), EXTENDED.settings), False),  # a repeat
        (Extend(2, 2, (3,), EXTENDED.settings), True),
        (Extend(1, 9, (3,), EXTENDED.settings), True),
        (EXTENDED, True),  # in mid-answer
        (Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, EXTENDED.settings), True),
    ],
)
async def test_nothing_is_compiled_for_what_begins_no_turn(more: FromClient, is_refused: bool) -> None:
    compiling, is_read = Compiling(), asyncio.Event()

    async def says_more() -> AsyncGenerator[FromClient]:
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, Settings(5))
        yield more
        is_read.set()
        await asyncio.Event().wait()

    async with make_servicer(constrain=compiling).generate(says_more(), (), PEER) as stream:
        if is_refused:
            *_, failed = [each async for each in heard(stream)]
            assert isinstance(failed, Failed)
        else:
            await is_read.wait()
    assert compiling.compiled == []


async def test_nothing_is_compiled_for_a_stream_that_has_ended() -> None:
    compiling = Compiling()

    async def says_more() -> AsyncGenerator[FromClient]:
        yield Open(PROTOCOL_VERSION, "f", "a session's name", 0, (1, 2), 2, Settings(5))
        for turn in range(1, 9):
            yield replace(EXTENDED, turn=turn)

    async with make_servicer(constrain=compiling).generate(says_more(), (), PEER) as stream:
        stream.end()
        for _ in range(50):
            await asyncio.sleep(0.001)
    assert compiling.compiled == []


class Kept:
    """A constraint that somebody must keep, or it is compiled again."""


async def test_what_is_compiled_is_there_until_its_session_has_it() -> None:
    kept = WeakValueDictionary[str, Kept]()
    in_passes_thread = list[bool]()

    def constrain(constraint: Constraint | None) -> Kept | None:
        if constraint is None:
            return None
        found = kept.get(constraint.text)
        if found is None:
            in_passes_thread.append(threading.current_thread() is threading.main_thread())
            found = kept[constraint.text] = Kept()
        return found

    servicer = make_servicer(constrain=cast(Constrain, constrain))
    async with servicer.generate(opening(Constraint("regex", "a")), (), PEER) as stream:
        assert isinstance(await anext(heard(stream)), Opened)
    assert in_passes_thread == [False]
