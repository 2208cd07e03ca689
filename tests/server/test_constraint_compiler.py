"""Constraints are compiled a few at a time, one of each caller, and in threads that nothing else needs."""

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from server.constraint_compiler import AT_ONCE, ConstraintCompiler, machine_of


class Work:
    """What is compiled, as long as the test wants."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.goes_on = threading.Event()

    def of(self, name: str) -> str:
        self.begun.append(name)
        assert self.goes_on.wait(30)
        return name


async def compiled(compiler: ConstraintCompiler, caller: str, work: Callable[[], object]) -> object:
    async with compiler.turn_of(caller) as compile_:
        return await compile_(work)


async def settled(work: Work, begun: int) -> None:
    """So many have begun, and others have had time to."""
    while len(work.begun) < begun:
        await asyncio.sleep(0.005)
    for _ in range(20):
        await asyncio.sleep(0.005)


async def test_each_caller_has_one_at_a_time_and_others_do_not_wait_behind_it() -> None:
    work, compiler = Work(), ConstraintCompiler()
    compiling = [
        asyncio.create_task(compiled(compiler, caller, lambda name=name: work.of(name)))
        for caller, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"))
    ]
    await settled(work, AT_ONCE)
    assert work.begun == ["a1", "b1"]
    assert len(work.begun) == AT_ONCE
    work.goes_on.set()
    assert await asyncio.gather(*compiling) == ["a1", "a2", "a3", "b1", "c1"]
    assert sorted(work.begun) == ["a1", "a2", "a3", "b1", "c1"]


async def test_whoever_goes_away_keeps_its_turn_until_its_work_is_done() -> None:
    work, compiler = Work(), ConstraintCompiler()
    gone = asyncio.create_task(compiled(compiler, "a", lambda: work.of("gone")))
    await settled(work, 1)
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    later = asyncio.create_task(compiled(compiler, "a", lambda: work.of("later")))
    await settled(work, 1)
    assert work.begun == ["gone"]
    work.goes_on.set()
    assert await later == "later"


async def test_what_is_raised_when_nobody_waits_any_more_is_not_logged() -> None:
    """It quotes what the client wrote."""
    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["message"]))
    work, compiler = Work(), ConstraintCompiler()

    def fail() -> None:
        work.of("gone")
        raise ValueError("my password is hunter2")

    gone = asyncio.create_task(compiled(compiler, "a", fail))
    await settled(work, 1)
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    del gone
    work.goes_on.set()
    assert await compiled(compiler, "a", lambda: "next") == "next"
    gc.collect()
    assert not logged


async def test_other_work_has_its_threads_while_all_compile() -> None:
    """Files of bundles are read in asyncio's own threads, and ranks are told in them that this one lives."""
    work, compiler = Work(), ConstraintCompiler()
    compiling = [asyncio.create_task(compiled(compiler, str(each), lambda: work.of(""))) for each in range(64)]
    await settled(work, AT_ONCE)
    async with asyncio.timeout(10):
        assert await asyncio.to_thread(lambda: "read") == "read"
    work.goes_on.set()
    await asyncio.gather(*compiling)


async def test_what_is_raised_reaches_its_caller_and_ends_its_turn() -> None:
    compiler = ConstraintCompiler()

    def fail() -> None:
        raise ValueError("it cannot be compiled")

    for _ in range(2):
        with pytest.raises(ValueError, match="cannot be compiled"):
            await compiled(compiler, "a", fail)


@pytest.mark.parametrize(
    ("peer", "other", "same"),
    [
        ("ipv4:127.0.0.1:5", "ipv4:127.0.0.1:6", True),
        ("ipv6:%5B::1%5D:5", "ipv6:%5B::1%5D:6", True),
        ("ipv4:127.0.0.1:5", "ipv4:127.0.0.2:5", False),
    ],
)
def test_callers_without_a_token_are_their_machines(peer: str, other: str, same: bool) -> None:
    assert (machine_of(peer) == machine_of(other)) is same
