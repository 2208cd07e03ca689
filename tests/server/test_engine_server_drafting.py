"""Server drafting in the engine: exact answers, its worker and its costs, and a drafter that fails."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar
from uuid import uuid4

import numpy as np
import pytest

from common.pacing import Timed
from common.protocol.client_session import ClientSession
from common.protocol.errors import MisuseError
from common.protocol.messages import Commit, Settings, StateRequest
from common.protocol.views import Proposal, TreeView
from server.engine import Engine
from server.options import Pace
from tests.server.client_turn import EngineWire, play
from tests.server.clients_of_sessions import LIMITS, prompt_of
from tests.server.fake_target import VOCAB, FakeTarget
from tests.server.helpers import Helpers, InPlace
from tests.server.proposers import Proposer, guessing, nothing
from tests.server.server_drafted import ASSISTED, ASSISTING, knowing_all, new_sessions, truth_of

Result = TypeVar("Result")


async def answers(engine: Engine, prompts: Sequence[list[int]], idle: str, propose: Proposer) -> list[list[int]]:
    running = asyncio.create_task(engine.run())
    clients = [ClientSession(uuid4().hex, LIMITS) for _ in prompts]
    plays = [
        play(client, EngineWire(engine), client.open(prompt, Settings(40, idle=idle)), propose)
        for client, prompt in zip(clients, prompts, strict=True)
    ]
    try:
        found = await asyncio.wait_for(asyncio.gather(*plays), 30)
        while engine.sessions._pass_timings.is_drafting:  # a level that has begun counts
            await asyncio.sleep(0)
        return found
    finally:
        running.cancel()


@pytest.mark.parametrize("clients_draft", [False, True])
@pytest.mark.parametrize("idle", ASSISTING)
async def test_with_help_the_engine_answers_as_the_target_alone(idle: str, clients_draft: bool) -> None:
    fake_target, prompts = FakeTarget(), [[3, *prompt_of(1, 60)], [4, *prompt_of(2, 7)]]
    helpers = Helpers(knowing_all(*prompts))
    engine = Engine(new_sessions(), fake_target, Pace(per_pass=0.002), drafter_factory=helpers)
    propose = guessing(VOCAB) if clients_draft else nothing
    assert await answers(engine, prompts, idle, propose) == [truth_of(prompt) for prompt in prompts]
    assert engine.counters.assisted_levels == len(helpers.views) > 0
    assert engine.counters.recomputed_tokens == 0


class FailingHelpers(Helpers):
    """Fails in the way given, for sessions whose first token is 3."""

    def __init__(self, propose: Proposer, fails_to: str):
        super().__init__(propose)
        self._fails_to = fails_to
        self.failures = 0

    def make(self, wanted: StateRequest | None) -> Self:
        if self._fails_to == "load":
            self.failures += 1
            raise MisuseError("the draft is not here")
        return super().make(wanted)

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        if view.tokens[0] == 3:
            self.failures += 1
            raise RuntimeError("no kernel image")
        return super().draft(view, slots)


@pytest.mark.parametrize(("fails_to", "failures", "helped"), [("load", 2, False), ("draft", 1, True)])
async def test_a_server_drafter_that_fails_costs_its_session_the_help_and_no_token(
    fails_to: str, failures: int, helped: bool
) -> None:
    prompts = [[3, 1], [4, 1]]
    drafter_factory = FailingHelpers(knowing_all(*prompts), fails_to)
    in_place = partial(InPlace, {})  # so that levels are tried before the answers are whole
    engine = Engine(new_sessions(), FakeTarget(), Pace(), drafter_factory=drafter_factory, make_worker=in_place)
    assert await answers(engine, prompts, "assist", nothing) == [truth_of(prompt) for prompt in prompts]
    assert drafter_factory.failures == failures
    assert (engine.counters.assisted_levels > 0) is helped


async def test_passes_and_levels_have_a_worker_and_a_stated_cost_each() -> None:
    costs: dict[str, list[float]] = {}
    prompt = [3, 1, 2]
    pace = Pace(per_pass=0.5, per_token=0.25, per_level=0.125)
    helpers = Helpers(knowing_all(prompt))
    engine = Engine(new_sessions(), FakeTarget(), pace, drafter_factory=helpers, make_worker=partial(InPlace, costs))
    assert await answers(engine, [prompt], "assist", nothing) == [truth_of(prompt)]
    assert set(costs) == {"target", "server drafter"}
    assert costs["target"][0] == 3 * 0.25
    assert costs["server drafter"] == [0.125] * len(helpers.views) != []


async def test_what_follows_a_pass_at_once_is_part_of_the_next_ones_cost_and_a_wait_is_not() -> None:
    workers: list[InPlace] = []

    def make_worker(name: str) -> InPlace:
        workers.append(InPlace({}, name))
        return workers[-1]

    engine = Engine(new_sessions(server_drafts=False), FakeTarget(), Pace(), make_worker=make_worker)
    running = asyncio.create_task(engine.run())
    for prompt in ([3, 1], [4, 1]):
        await asyncio.sleep(0)
        client = ClientSession(uuid4().hex, LIMITS)
        wire = EngineWire(engine)
        await asyncio.wait_for(play(client, wire, client.open(prompt, Settings(40, idle="eager")), nothing), 10)
    running.cancel()
    (worker,) = workers
    begun = [number for number, rests in enumerate(worker.rests[:-1]) if rests]
    assert begun == [0, len(truth_of([3, 1]))]


async def test_what_a_pass_committed_leaves_before_the_next_pass_begins() -> None:
    received: list[int] = []
    known: list[int] = []

    class Asking(InPlace):
        async def run(
            self, cost: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
        ) -> tuple[Result, Timed]:
            known.append(sum(received))
            return await super().run(cost, compute, before)

    engine = Engine(new_sessions(server_drafts=False), FakeTarget(), Pace(), make_worker=partial(Asking, {}))
    running = asyncio.create_task(engine.run())
    client, wire = ClientSession(uuid4().hex, LIMITS), EngineWire(engine)
    wire.send(client.open([3, 1], Settings(5, idle="eager")))
    while client.finished is None:
        message = await wire.receive()
        assert message is not None
        client.receive(message)
        received.append(len(message.tokens) if isinstance(message, Commit) else 0)
    running.cancel()
    assert known == list(range(len(truth_of([3, 1])[:5])))


async def test_a_server_that_cannot_draft_makes_no_worker_for_it() -> None:
    costs: dict[str, list[float]] = {}
    engine = Engine(new_sessions(server_drafts=False), FakeTarget(), Pace(), make_worker=partial(InPlace, costs))
    assert await answers(engine, [[3, 1]], "assist", nothing) == [truth_of([3, 1])]
    assert set(costs) == {"target"}


async def test_a_client_that_says_nothing_is_helped_from_its_first_pass_on() -> None:
    """No frame of the client wakes the drafter: the passes do."""
    helpers, in_place = Helpers(knowing_all([3, 1])), partial(InPlace, {})
    engine = Engine(new_sessions(), FakeTarget(), Pace(), drafter_factory=helpers, make_worker=in_place)
    running = asyncio.create_task(engine.run())
    client, wire = ClientSession(uuid4().hex, LIMITS), EngineWire(engine)
    wire.send(client.open([3, 1], ASSISTED))
    while client.finished is None:
        message = await asyncio.wait_for(wire.receive(), 10)
        assert message is not None
        client.receive(message)
    running.cancel()
    assert client.answer == truth_of([3, 1])
    assert engine.counters.assisted_levels > 5


class Late(InPlace):
    """Takes longer than its stated cost."""

    async def run(
        self, cost: float, compute: Callable[[], Result], before: Callable[[], object] | None = None
    ) -> tuple[Result, Timed]:
        result, timed = await super().run(cost, compute, before)
        return result, replace(timed, overran=True)


async def test_levels_that_overrun_their_stated_cost_are_counted_and_not_as_passes() -> None:
    costs: dict[str, list[float]] = {}

    def make_worker(name: str) -> InPlace:
        return (Late if name == "server drafter" else InPlace)(costs, name)

    engine = Engine(
        new_sessions(), FakeTarget(), Pace(), drafter_factory=Helpers(knowing_all([3, 1])), make_worker=make_worker
    )
    await answers(engine, [[3, 1]], "assist", nothing)
    assert engine.counters.overrun_levels == engine.counters.assisted_levels > 0
    assert engine.counters.overrun_passes == 0
