"""Real gRPC on loopback over connections that break: a session keeps what it holds until its client is back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from common.address import parse_address
from common.protocol.messages import Settings
from common.protocol.transitions import ClientState
from common.rpc.stub import connect
from netem.links.breakable import BreakableProxy
from server.engine import Engine
from server.options import Pace
from tests.server.client_turn import play
from tests.server.harness import new_session, options_for, running, with_sessions
from tests.server.proposers import guessing, nothing
from tests.server.reference import Reference

PROMPT = list(range(5, 42))
TOKENS = 24


@asynccontextmanager
async def broken_server(target: Path, per_pass: float = 0.0) -> AsyncIterator[tuple[Engine, BreakableProxy]]:
    """A server that keeps sessions on lease, and a proxy in front of it."""
    options = with_sessions(options_for(target), lease_seconds=60.0, run_ahead=4, pace=Pace(per_pass))
    async with running(options) as server, BreakableProxy(parse_address(server.address)) as proxy:
        yield server.engine, proxy


async def gone(engine: Engine) -> None:
    """Returns once the server has noticed that the client is gone."""
    async with asyncio.timeout(10):
        while len(engine.sessions):
            await asyncio.sleep(0.01)


async def test_an_idle_chat_whose_connection_broke_goes_on_with_what_it_holds(
    target: Path, reference: Callable[[str], Reference]
) -> None:
    async with broken_server(target) as (engine, proxy):
        async with connect(str(proxy.address)) as connection:
            session = await new_session(connection)
            opening = session.open(PROMPT, Settings(3))
            await play(session, connection.generate(), opening, nothing)
            for turn in range(5):
                packed = engine.counters.packed_tokens
                proxy.reset()
                await gone(engine)
                assert engine.sessions.away == 1
                session.lost()
                sequence = [*session.tree.tokens, 50 + turn]
                async with connect(str(proxy.address)) as fresh:
                    opening = session.extend(len(sequence) - 1, sequence[-1:], Settings(1))
                    answer = await play(session, fresh.generate(), opening, nothing)
                    assert answer == reference("llama").answer(sequence, 1)
                    assert engine.counters.packed_tokens - packed <= 3
                    proxy.reset()
                    await gone(engine)
        counters = engine.counters
        assert (counters.sessions, counters.recomputed_tokens) == (1, 0)
        assert counters.failed == counters.refused == {}


@pytest.mark.parametrize("idle", ["lockstep", "eager"])
async def test_an_answer_that_waits_for_a_client_whose_connection_broke_waits_on(
    target: Path, reference: Callable[[str], Reference], idle: str
) -> None:
    async with broken_server(target) as (engine, proxy):
        async with connect(str(proxy.address)) as connection:
            session = await new_session(connection)
            stream = connection.generate()
            stream.send(session.open(PROMPT, replace(Settings(TOKENS), idle=idle)))
            message = await stream.receive()
            assert message is not None
            session.receive(message)
            await _until(lambda: engine.sessions.next_due() > asyncio.get_running_loop().time() + 1)
            proxy.reset()
            await gone(engine)
            assert engine.sessions.away == 1
        session.lost()
        async with connect(str(proxy.address)) as fresh:
            (opening,) = session.reopen()
            answer = await play(session, fresh.generate(), opening, guessing(300, 1))
        assert answer == reference("llama").answer(PROMPT, TOKENS)
        counters = engine.counters
        assert (counters.sessions, counters.recomputed_tokens) == (1, 0)
        assert counters.failed == counters.refused == {}


async def test_a_pass_that_outlives_its_connection_is_told_on_the_next(
    target: Path, reference: Callable[[str], Reference]
) -> None:
    """No pass is wasted, however slow this machine is."""
    truth = reference("llama").answer(PROMPT, 8)
    async with broken_server(target, per_pass=0.2) as (engine, proxy):
        session = None
        for known in range(4):
            async with connect(str(proxy.address)) as connection:
                if session is None:
                    session = await new_session(connection)
                    opening = session.open(PROMPT, Settings(8))
                else:
                    session.lost()
                    (opening,) = session.reopen()
                stream = connection.generate()
                stream.send(opening)
                # The result of the last pass is sent at once, and the next pass begins.
                while session.tree.frontier < len(PROMPT) + known or session.state is ClientState.OPENING:
                    message = await stream.receive()
                    assert message is not None
                    session.receive(message)
                await _until(lambda known=known: engine.counters.passes > known)
                proxy.reset()
                await gone(engine)
                await _until(lambda known=known: engine.counters.committed_tokens > known)
        async with connect(str(proxy.address)) as connection:
            session.lost()
            (opening,) = session.reopen()
            assert await play(session, connection.generate(), opening, nothing) == truth
        counters = engine.counters
        assert (counters.sessions, counters.passes, counters.recomputed_tokens) == (1, 8, 0)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)
