"""A server that receives twice the load that it can serve, on a virtual clock: admitted sessions are not affected."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from uuid import uuid4

import pytest

from common.protocol.client_session import ClientSession
from common.protocol.messages import Commit, Failed, Finished, Settings
from netem.virtual.clock import VirtualWorker, run_virtually
from server.engine import Engine
from server.options import Pace
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.client_turn import EngineWire
from tests.server.clients_of_sessions import LIMITS, TERMS, prompt_of
from tests.server.fake_target import FakeTarget

CAPACITY = 8
SECONDS = 60.0
COSTLY = Pace(per_pass=0.03, per_token=0.01)
ANSWER = Settings(max_new_tokens=40)


@dataclass
class Seen:
    """What clients saw, in seconds."""

    gaps: list[float] = field(default_factory=list)
    hints: list[float] = field(default_factory=list)
    refused_within: list[float] = field(default_factory=list)
    answers: int = 0


@asynccontextmanager
async def serving(max_running: int) -> AsyncIterator[Engine]:
    terms, bounds = replace(TERMS, end_tokens=frozenset()), ServingLimits(64, 64, max_running=max_running)
    clock = asyncio.get_running_loop().time
    engine = Engine(Sessions(terms, bounds, 4000), FakeTarget(), COSTLY, clock=clock, make_worker=VirtualWorker)
    running = asyncio.create_task(engine.run())
    yield engine
    running.cancel()


async def request(engine: Engine, prompt: list[int], seen: Seen) -> float:
    """One question; returns the seconds until it may be retried if it was refused, else 0."""
    clock = asyncio.get_running_loop().time
    wire, session, asked = EngineWire(engine), ClientSession(uuid4().hex, LIMITS), clock()
    commits: list[float] = []
    try:
        wire.send(session.open(prompt, ANSWER))
        while (message := await wire.receive()) is not None:
            session.receive(message)
            if isinstance(message, Failed):
                seen.hints.append(message.retry_after)
                seen.refused_within.append(clock() - asked)
                return message.retry_after
            if isinstance(message, Commit):
                commits.append(clock())
                acknowledgement = session.acknowledge()
                assert acknowledgement is not None
                wire.send(acknowledgement)
            if isinstance(message, Finished):
                seen.answers += 1
                return 0.0
        return 0.0
    finally:
        seen.gaps += [later - earlier for earlier, later in pairwise(commits)]
        wire.close()


def under(clients: int, max_running: int) -> Seen:
    """This many clients, each of which asks again as soon as it may."""
    seen, prompts = Seen(), iter(prompt_of(number, 5) for number in range(10**6))

    async def attend(engine: Engine, prompts: Iterator[list[int]]) -> None:
        while asyncio.get_running_loop().time() < SECONDS:
            await asyncio.sleep(await request(engine, next(prompts), seen))

    async def main() -> None:
        async with serving(max_running) as engine:
            await asyncio.gather(*(attend(engine, prompts) for _ in range(clients)))

    run_virtually(main())
    return seen


def late(gaps: list[float]) -> float:
    return sorted(gaps)[int(0.95 * len(gaps))]


@pytest.fixture(scope="module")
def full() -> Seen:
    return under(CAPACITY, CAPACITY)


@pytest.mark.parametrize("clients", [2 * CAPACITY, 6 * CAPACITY])
def test_who_is_let_in_waits_no_longer_for_a_token_and_the_rest_hear_at_once_when_to_come(
    full: Seen, clients: int
) -> None:
    seen = under(clients, CAPACITY)
    assert late(seen.gaps) <= 1.1 * late(full.gaps)
    assert max(seen.refused_within) < 0.001
    assert min(seen.hints) > 0
    assert seen.answers >= 0.9 * full.answers, "places stood empty while clients waited"
    assert len(seen.hints) < 10 * seen.answers, "clients were told to come back too soon"


def test_without_a_limit_everybody_waits_for_everybody(full: Seen) -> None:
    """Shows that the test above can fail."""
    seen = under(2 * CAPACITY, 2 * CAPACITY)
    assert late(seen.gaps) > 1.5 * late(full.gaps)
    assert not seen.hints
