"""Replicas are asked whether they are well: what hangs is killed, and what merely cannot be asked is left alone."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from common.address import Address
from server.observe import metrics_port
from server.observe.metrics_port import MetricsPort, read_on
from server.supervisor import replica as replica_module
from server.supervisor import supervisor as supervisor_module
from server.supervisor.plan import MOST_SILENCES
from server.supervisor.scaling import DOWN_AFTER_S, Bounds
from server.supervisor.supervisor import LOAD_INTERVAL_S
from tests.server.supervisor.fake_fleet import Fleet

pytestmark = pytest.mark.usefixtures("quick")


async def test_a_page_that_is_none_ends_nothing_and_is_left_out() -> None:
    fleet = Fleet(Bounds(2, 3, 8))
    await fleet.is_ready()
    fleet.replicas[0].written = "<html>"
    fleet.now += LOAD_INTERVAL_S
    await asyncio.sleep(0.02)
    page = (await fleet.supervisor.metrics()).content
    assert b'num_requests_waiting{replica="1"}' in page
    assert b'num_requests_waiting{replica="0"}' not in page
    await fleet.ended()


async def test_a_replica_that_is_silent_holds_up_no_restart() -> None:
    fleet = Fleet(Bounds(2, 3, 8))
    await fleet.is_ready()
    fleet.replicas[0].is_silent = True
    fleet.now += LOAD_INTERVAL_S
    await asyncio.sleep(0.02)
    fleet.replicas[1].code = -9
    await fleet.until(lambda: fleet.replicas[1].is_closed)
    fleet.now += 1.0
    await fleet.until(lambda: len(fleet.replicas) == 3)
    await fleet.ended()


async def test_a_page_of_the_fleet_waits_for_no_silent_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_PAGE_S", 0.01)
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    fleet.replicas[0].is_silent = True
    async with asyncio.timeout(5):
        assert b'num_requests_waiting{replica="1"}' in (await fleet.supervisor.metrics()).content
    await fleet.ended()


async def test_a_replica_that_hangs_is_left_out_killed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_PAGE_S", 0.01)
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    fleet.replicas[0].is_silent = True
    await fleet.until(lambda: fleet.replicas[0].is_closed)
    assert "outriderd: replica 0 does not answer and is killed" in fleet.said
    assert "outriderd: replica 0 ended by SIGKILL and starts again in 1 s: loaded" in fleet.said
    await fleet.until(lambda: fleet.replicas[1].told[-1] == (Address("gpu", 7071),))
    fleet.now = 1.0
    await fleet.until(lambda: len(fleet.replicas) == 3 and len(fleet.replicas[1].told[-1]) == 2)
    await fleet.ended()


async def test_a_replica_that_answers_again_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_PAGE_S", 0.05)
    fleet = Fleet(Bounds(1, 1, 8))
    await fleet.is_ready()
    fleet.replicas[0].is_silent = True
    await fleet.until(lambda: fleet.supervisor.plan.replicas[0].silences == MOST_SILENCES - 1)
    fleet.replicas[0].end_silence()
    await fleet.until(lambda: fleet.supervisor.plan.replicas[0].silences == 0)
    assert not fleet.replicas[0].is_closed
    await fleet.ended()


async def test_a_replica_whose_connections_others_have_taken_is_left_alone() -> None:
    with (
        closing(MetricsPort(Address("127.0.0.1", 0), CollectorRegistry(), insecure=False)) as port,
        ExitStack() as stack,
    ):
        for _ in range(metrics_port._MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection((port.address.host, port.address.port), timeout=10))
        fleet = Fleet(Bounds(1, 1, 8))
        await fleet.is_ready()
        (replica,) = fleet.replicas
        replica.url = port.url
        asked = replica.pages
        await fleet.until(lambda: replica.pages >= asked + 2 * MOST_SILENCES)
        assert not replica.is_closed
        assert fleet.supervisor.plan.replicas[0].silences == 0
        await fleet.ended()


class Sleeping:
    """Metrics that are read on an event loop which never gets to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._read = read_on(self.loop, list[Metric])

    def collect(self) -> Iterator[Metric]:
        yield from self._read()


async def test_a_replica_whose_event_loop_sleeps_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "_READ_SECONDS", 0.2)
    monkeypatch.setattr(replica_module, "_SILENT_S", 0.1)
    registry, sleeping = CollectorRegistry(auto_describe=False), Sleeping()
    fleet = Fleet(Bounds(1, 1, 8))
    await fleet.is_ready()
    with (
        closing(sleeping.loop),
        closing(MetricsPort(Address("127.0.0.1", 0), registry, insecure=False)) as port,
    ):
        registry.register(sleeping)
        fleet.replicas[0].url = port.url
        await fleet.until(lambda: fleet.replicas[0].is_closed)
    assert "outriderd: replica 0 does not answer and is killed" in fleet.said
    await fleet.ended()


async def test_a_replica_whose_page_is_missing_is_not_idle() -> None:
    fleet = Fleet(Bounds(1, 2, 8))
    await fleet.is_ready()
    fleet.supervisor.plan = fleet.supervisor.plan.resized(2)
    await fleet.until(lambda: len(fleet.said) and sum("serves on" in line for line in fleet.said) == 2)
    fleet.replicas[1].written = "<html>"
    await fleet.reads_loads(10, DOWN_AFTER_S / 4)
    assert [each.drains for each in fleet.replicas] == [0, 0]
    fleet.replicas[1].written = None
    await fleet.reads_loads(10, DOWN_AFTER_S / 4)
    assert sum(each.drains for each in fleet.replicas) == 1
    await fleet.ended()
