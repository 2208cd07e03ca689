"""netem.experiments.capacity.clock_replayed: both sides answer the same, as often."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from netem.experiments.capacity import clock_replayed
from netem.experiments.capacity.clock_replayed import QUICK, SYSTEMS, compare, make_report, play_virtually
from netem.experiments.capacity.measure import EAGER, PLAIN
from netem.experiments.capacity.replica import answer_in_turn
from netem.experiments.speed.costs import VIRTUAL_COSTS
from tests.client.demo.answers import answer, counted
from tests.netem.experiments.capacity.recordings import PREDICTABLE

TWICE = clock_replayed.ReplayedWorkload(("4g",), (2,), each=2, tokens=40, repetitions=2)


def test_as_many_draws_of_the_link_are_simulated_as_there_are_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(*arguments: Any, draw: int) -> float:
        asked.append((*arguments[1:], draw))
        return 2.0 + draw

    monkeypatch.setattr(clock_replayed, "answer_in_turn", noted)
    assert play_virtually(PREDICTABLE, EAGER, "4g", 2, TWICE) == 2.5
    assert [(each[0], *each[2:]) for each in asked] == [(EAGER, 2, 4, 0), (EAGER, 2, 4, 1)]


def test_another_draw_is_another_link() -> None:
    replay, link = clock_replayed.Replay(PREDICTABLE), clock_replayed.find_profile("4g")
    speeds = [answer_in_turn(replay, PLAIN, link, 1, 1, draw=draw) for draw in (0, 0, 1)]
    assert speeds[0] == speeds[1] != speeds[2]
    assert speeds[0] < 1000 / VIRTUAL_COSTS["pass_ms"]


async def test_every_system_answers_as_often_in_real_time_and_is_held_against_its_own_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played: list[tuple[str, int]] = []
    late = {system.name: number for number, system in enumerate(SYSTEMS)}

    @asynccontextmanager
    async def opened(recording: object, system: Any, *_: object) -> AsyncIterator[Any]:
        async def play(each: int) -> list[Any]:
            played.append((system.name, each))
            return [answer((1, 2), seconds=0.5)]

        async def counters() -> dict[str, Any]:
            measured = len(played) > len(SYSTEMS)
            passes = {False: counted(passes=90, overrun=9), True: counted(passes=100, overrun=9 + late[system.name])}
            return {**passes[measured], "assisted_levels": 0, "overrun_levels": 0}

        yield SimpleNamespace(play=play, server=SimpleNamespace(counters=counters))

    monkeypatch.setattr(clock_replayed, "linked_clients", opened)
    monkeypatch.setattr(clock_replayed, "play_virtually", lambda recording, system, *_: 4.0)
    compared = await compare(PREDICTABLE, "4g", 2, TWICE)
    names = [system.name for system in SYSTEMS]
    assert played[:4] == [(name, 1) for name in names], "unmeasured"
    assert sorted(played[4:]) == sorted((name, 2) for name in 2 * names)
    assert [each.system for each in compared] == names
    assert [each.late_passes for each in compared] == [0.0, 0.1, 0.2, 0.3]
    assert {each.ratio for each in compared} == {1.0}
    assert len(make_report(compared, QUICK).rows) == len(names)
