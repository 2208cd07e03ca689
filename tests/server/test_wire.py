"""Real gRPC on loopback: exact answers, many clients at once, streams that replace each other."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.protocol.client_session import ClientSession
from common.protocol.messages import Opened, Settings
from common.rpc.stub import connect
from server.options import Pace
from tests.server.client_turn import play
from tests.server.harness import new_session, options_for, running, with_sessions
from tests.server.proposers import guessing, knowing, nothing
from tests.server.reference import Reference

TOKENS = 48


async def test_eight_clients_at_once_are_exact_and_share_passes(
    target: Path, reference: Callable[[str], Reference]
) -> None:
    rng = random.Random(1)
    prompts = [[rng.randrange(2, 300) for _ in range(10 + 20 * index)] for index in range(8)]
    truths = [reference("llama").answer(prompt, TOKENS) for prompt in prompts]

    async def client(index: int, address: str) -> list[int]:
        async with connect(address) as connection:
            session = await new_session(connection)
            known = prompts[index] + truths[index]
            propose = [knowing(known, 0.8, 300, index), guessing(300, index), nothing][index % 3]
            return await play(session, connection.generate(), session.open(prompts[index], Settings(TOKENS)), propose)

    options = with_sessions(options_for(target), pace=Pace(per_pass=0.01))
    async with running(options) as server:
        answers = await asyncio.gather(*(client(index, server.address) for index in range(8)))
        counters = server.engine.counters
    assert answers == truths
    assert counters.recomputed_tokens == 0
    assert counters.committed_tokens == sum(map(len, truths))
    assert counters.sessions_per_pass > 2


async def test_the_newest_stream_of_a_session_wins(target: Path, reference: Callable[[str], Reference]) -> None:
    prompt = list(range(5, 25))
    options = with_sessions(options_for(target), pace=Pace(per_pass=0.005))
    async with running(options) as server, connect(server.address) as connection:
        session = await new_session(connection)
        older = connection.generate()
        older.send(session.open(prompt, Settings(TOKENS)))
        while len(session.answer) < 8:
            message = await older.receive()
            assert message is not None
            session.receive(message)
        session.lost()
        (opening,) = session.reopen()
        answer = await play(session, connection.generate(), opening, nothing)
        while await older.receive() is not None:
            pass
        assert server.engine.counters.sessions == 1
    assert answer == reference("llama").answer(prompt, TOKENS)


async def test_a_stream_that_ends_gives_its_slots_back(target: Path) -> None:
    options = with_sessions(options_for(target), run_ahead=4)
    async with running(options) as server, connect(server.address) as connection:
        for close in (True, False):
            session = await new_session(connection)
            stream = connection.generate()
            stream.send(session.open([1, 2, 3], Settings(TOKENS)))
            assert await stream.receive() is not None
            if close:
                stream.close()
            else:
                await connection.close()
            # A pass that is under way gives its slots back when it is done.
            await _until(lambda: len(server.engine.sessions) == 0 and server.engine.sessions.free_slots == 8192)


async def test_a_client_that_closes_its_side_still_gets_its_answer(
    target: Path, reference: Callable[[str], Reference]
) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        session = await new_session(connection)
        stream = connection.generate()
        stream.send(session.open([5, 6, 7], Settings(TOKENS)))
        opened = await stream.receive()
        assert isinstance(opened, Opened)
        session.receive(opened)
        await stream._call.done_writing()
        while (message := await stream.receive()) is not None:
            session.receive(message)
        assert session.answer == reference("llama").answer([5, 6, 7], TOKENS)
        assert len(server.engine.sessions) == 0


async def test_a_session_goes_on_over_several_turns(target: Path, reference: Callable[[str], Reference]) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        session: ClientSession = await new_session(connection)
        stream = connection.generate()
        opening = session.open([5, 6, 7], Settings(TOKENS))
        for _ in range(3):
            truth = reference("llama").answer(session.tree.tokens, TOKENS)
            assert await play(session, stream, opening, guessing(300)) == truth
            opening = session.extend(len(session.tree.tokens) - 2, [40, 41], Settings(TOKENS))
        assert server.engine.counters.recomputed_tokens == 0
        assert stream.traffic.up > 0
        assert stream.traffic.down > 0


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came about")


async def test_a_server_says_what_its_answers_depend_on(target: Path) -> None:
    async with running(options_for(target)) as server, connect(server.address) as connection:
        said = await connection.describe()
    assert (said.identity.context, said.identity.numerics) == (said.context, "float64")


async def test_a_server_says_how_passes_are_computed_where_the_processor_rules_the_default_out(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.models.target_loader.row_multiple", lambda model: None)
    options = options_for(target)
    options = replace(options, target=replace(options.target, dtype="bfloat16"))
    async with running(options) as server, connect(server.address) as connection:
        assert (await connection.describe()).numerics == "bfloat16 fast"
