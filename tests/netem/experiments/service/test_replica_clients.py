"""What is recorded of answers that lose their stream."""

import asyncio
from pathlib import Path

from common.address import Address
from netem.experiments.service import replica_clients
from netem.experiments.service.replica_clients import Clients, Phase, Reconnect, run_phase


def test_what_had_a_cause_is_told_from_what_had_none() -> None:
    moved = Reconnect("a", "b", "the connection was reset", had_cause=True)
    stayed = Reconnect("a", "a", "the server was silent for 1.3 s", had_cause=False)
    phase = Phase(reconnects=[moved, stayed, moved])
    assert (phase.moved, phase.without_cause) == (2, [stayed])
    assert (stayed.came_back, moved.came_back) == (True, False)


async def test_a_client_that_still_waits_when_a_phase_ends_has_waited_until_then(monkeypatch) -> None:
    async def hangs(*_):
        await asyncio.sleep(3600)

    monkeypatch.setattr(Clients, "_ask", hangs)
    clients = Clients([Address("127.0.0.1", 1)], {(1,): (2,)}, Path())
    asking = asyncio.create_task(clients.come_and_go(0))
    first = await run_phase(clients, asyncio.sleep(0.1), lambda: [])
    second = await run_phase(clients, asyncio.sleep(0.1), lambda: [])
    asking.cancel()
    assert 0.05 < first.longest_wait_s < second.longest_wait_s - 0.05


async def test_the_longest_wait_for_an_answer_is_kept(monkeypatch) -> None:
    waits = [0.02, 0.1, 0.0]

    async def answers(*_):
        await asyncio.sleep(waits.pop(0) if waits else 3600)

    monkeypatch.setattr(Clients, "_ask", answers)
    clients = Clients([Address("127.0.0.1", 1)], {(1,): (2,)}, Path())
    asking = asyncio.create_task(clients.come_and_go(0))
    while waits:
        await asyncio.sleep(0.01)
    asking.cancel()
    assert 0.1 <= clients.phase.longest_wait_s < 3600


async def test_a_client_that_breaks_is_a_failure(monkeypatch) -> None:
    async def breaks(*_):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Clients, "_ask", breaks)
    monkeypatch.setattr(replica_clients, "ARRIVAL_S", 0.0)
    clients = Clients([Address("127.0.0.1", 1)], {(1,): (2,)}, Path())
    await clients.come_and_go(0)
    assert clients.phase.failures == ["RuntimeError: no such thing"]
