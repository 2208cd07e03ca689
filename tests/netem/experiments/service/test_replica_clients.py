"""What is recorded of answers that lose their stream."""

from pathlib import Path

from common.address import Address
from netem.experiments.service import replica_clients
from netem.experiments.service.replica_clients import Clients, Phase, Reconnect


def test_what_had_a_cause_is_told_from_what_had_none() -> None:
    moved = Reconnect("a", "b", "the connection was reset", had_cause=True)
    stayed = Reconnect("a", "a", "the server was silent for 1.3 s", had_cause=False)
    phase = Phase(reconnects=[moved, stayed, moved])
    assert (phase.moved, phase.without_cause) == (2, [stayed])
    assert (stayed.came_back, moved.came_back) == (True, False)


async def test_a_client_that_breaks_is_a_failure(monkeypatch) -> None:
    async def breaks(*_):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Clients, "_ask", breaks)
    monkeypatch.setattr(replica_clients, "ARRIVAL_S", 0.0)
    clients = Clients([Address("127.0.0.1", 1)], {(1,): (2,)}, Path())
    await clients.come_and_go(0)
    assert clients.phase.failures == ["RuntimeError: no such thing"]
