"""A fleet lives as its plan says: replicas are started, told of each other, restarted, replaced, and drained."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from common.address import Address
from common.programs.command_line import MISUSE
from common.protocol.errors import MisuseError
from server.observe import metrics_port
from server.observe.metrics_port import MetricsPort, read_on
from server.supervisor import replica as replica_module
from server.supervisor import supervisor as supervisor_module
from server.supervisor.plan import MOST_RESTARTS, MOST_SILENCES
from server.supervisor.replica import Heard, read_page
from server.supervisor.scaling import DOWN_AFTER_S, UP_AFTER_S, Bounds
from server.supervisor.supervisor import LOAD_INTERVAL_S, FleetError, ReplicaLostError, Supervisor

PAGE = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting {}\n"


class FakeReplica:
    """Serves at once, unless it is told how to end instead."""

    def __init__(self, number: int, code: int | None = None):
        self.address = Address("gpu", 7070 + number)
        self.told: list[Sequence[Address]] = [()]
        self.offered = 0
        self.can_write = True
        self.is_told_at_once = asyncio.Event()
        self.is_told_at_once.set()
        self.lines: list[str] = ["loaded"]
        self.code = code
        self.is_lost = False
        self.is_closed = False
        self.drains = 0
        self.waiting = 0
        self.written: str | None = None
        self.url = ""  # of a page that is read there
        self.pages = 0
        self.is_silent = False
        self._silence = asyncio.Event()
        self.ends_when_drained = True

    async def poll(self) -> Heard:
        await asyncio.sleep(0)
        if self.is_lost:
            raise ReplicaLostError("its Ray actor is gone")
        lines, self.lines = tuple(self.lines), []
        return Heard(lines, self.address if self.code is None else None, self.code)

    def drain(self) -> None:
        self.drains += 1
        if self.ends_when_drained:
            self.code = 0

    def kill(self) -> None:
        self.code = -9

    async def tell(self, addresses: Sequence[Address]) -> bool:
        self.offered += 1
        await self.is_told_at_once.wait()
        if self.can_write:
            self.told.append(addresses)
        return self.can_write

    async def page(self) -> str:
        if self.is_silent:
            await self._silence.wait()
        self.pages += 1
        if self.url:
            return await asyncio.to_thread(read_page, self.url)
        return PAGE.format(self.waiting) if self.written is None else self.written

    def end_silence(self) -> None:
        self.is_silent = False
        self._silence.set()

    async def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Fleet:
    """A supervisor of fake replicas, on a clock that is set by hand."""

    def __init__(self, bounds: Bounds, codes: Sequence[int] = ()):
        self.now = 0.0
        self.said: list[str] = []
        self.replicas: list[FakeReplica] = []
        self.codes = list(codes)
        self.supervisor = Supervisor(self._start, bounds, self.said.append, lambda: self.now)
        self.running = asyncio.create_task(self.supervisor.run())

    def _start(self, number: int) -> FakeReplica:
        self.replicas.append(FakeReplica(number, self.codes.pop(0) if self.codes else None))
        return self.replicas[-1]

    async def until(self, done: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not done():
                assert not self.running.done(), self.running
                await asyncio.sleep(0.001)

    async def is_ready(self) -> None:
        await self.until(lambda: [line for line in self.said if line.startswith("ready on ")])

    async def reads_loads(self, times: int, interval_s: float) -> None:
        for _ in range(times):
            self.now += interval_s
            await asyncio.sleep(0.01)

    async def ended(self) -> None:
        self.supervisor.end()
        async with asyncio.timeout(20):
            await self.running
        assert all(each.is_closed for each in self.replicas)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(supervisor_module, "TICK_S", 0.001)
    monkeypatch.setattr(supervisor_module, "PROBE_INTERVAL_S", 0.001)
    return


async def test_it_is_ready_once_all_serve_and_each_knows_all() -> None:
    fleet = Fleet(Bounds(3, 3, 8))
    await fleet.is_ready()
    assert fleet.said[-1] == "ready on gpu:7070,gpu:7071,gpu:7072"
    assert "replica 2: loaded" in fleet.said
    addresses = tuple(each.address for each in fleet.replicas)
    await fleet.until(lambda: [each.told[-1] for each in fleet.replicas] == [addresses] * 3)
    await fleet.ended()
    assert [each.drains for each in fleet.replicas] == [1] * 3


async def test_one_that_dies_is_left_out_and_comes_back() -> None:
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    fleet.replicas[0].code = -9
    await fleet.until(lambda: fleet.replicas[0].is_closed)
    assert "outriderd: replica 0 ended by SIGKILL and starts again in 1 s: loaded" in fleet.said
    await fleet.until(lambda: fleet.replicas[1].told[-1] == (Address("gpu", 7071),))
    fleet.now = 1.0
    await fleet.until(lambda: len(fleet.replicas) == 3 and len(fleet.replicas[1].told[-1]) == 2)
    await fleet.until(lambda: fleet.replicas[2].told[-1] == fleet.replicas[1].told[-1])
    health = json.loads((await fleet.supervisor.health()).content)
    assert [each["restarts"] for each in health["replicas"]] == [1, 0]
    assert b'outrider_fleet_restarts_total{replica="0"} 1.0' in (await fleet.supervisor.metrics()).content
    await fleet.ended()


async def test_a_list_is_handed_over_once_the_one_before_has_arrived() -> None:
    fleet = Fleet(Bounds(3, 3, 8))
    await fleet.is_ready()
    first, second, third = fleet.replicas
    await fleet.until(lambda: [len(each.told[-1]) for each in fleet.replicas] == [3] * 3)
    first.is_told_at_once.clear()
    offered = first.offered
    second.code = -9
    await fleet.until(lambda: len(third.told[-1]) == 2)
    fleet.now = 1.0
    await fleet.until(lambda: len(third.told[-1]) == 3)
    assert first.offered == offered + 1, "the one that was overtaken could win"
    first.is_told_at_once.set()
    await fleet.until(lambda: first.offered == offered + 2 and first.told[-1] == third.told[-1])
    assert [len(told) for told in first.told[-3:]] == [3, 2, 3]
    await fleet.ended()


async def test_a_list_that_could_not_be_written_is_handed_over_again() -> None:
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    first, second = fleet.replicas
    await fleet.until(lambda: len(first.told[-1]) == 2)
    first.can_write = False
    second.code = -9
    offered = first.offered
    await fleet.until(lambda: first.offered > offered + 1)
    first.can_write = True
    await fleet.until(lambda: first.told[-1] == (first.address,))
    await fleet.ended()


async def test_one_whose_machine_is_gone_is_started_elsewhere() -> None:
    fleet = Fleet(Bounds(1, 1, 8))
    await fleet.is_ready()
    fleet.replicas[0].is_lost = True
    await fleet.until(lambda: fleet.replicas[0].is_closed)
    assert (await fleet.supervisor.health()).status == 503
    fleet.now = 1.0
    await fleet.until(lambda: len(fleet.replicas) == 2)
    await fleet.ended()
    assert any("was lost and starts again in 1 s: its Ray actor is gone" in line for line in fleet.said)


async def test_an_update_replaces_one_after_another_and_leaves_it_out_first() -> None:
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    fleet.replicas[0].ends_when_drained = False
    fleet.supervisor.update()
    await fleet.until(lambda: fleet.replicas[0].drains)
    await fleet.until(lambda: fleet.replicas[1].told[-1] == (Address("gpu", 7071),))
    assert fleet.replicas[1].drains == 0
    assert json.loads((await fleet.supervisor.health()).content)["updating"]
    fleet.replicas[0].code = 0
    await fleet.until(lambda: "outriderd: all replicas are replaced" in fleet.said)
    assert [each.address.port for each in fleet.replicas] == [7070, 7071, 7070, 7071]
    assert [each.drains for each in fleet.replicas] == [1, 1, 0, 0]
    await fleet.ended()


async def test_an_update_ends_with_a_replica_that_fails_and_the_fleet_grows_with_its_load_again() -> None:
    fleet = Fleet(Bounds(2, 4, 8))
    await fleet.is_ready()
    fleet.codes = [MISUSE]
    fleet.supervisor.update()
    await fleet.until(lambda: len(fleet.replicas) == 3 and fleet.replicas[2].is_closed)
    assert fleet.said[-1] == "outriderd: the update ends here; replicas that it has not reached stay as they are"
    assert not json.loads((await fleet.supervisor.health()).content)["updating"]
    await fleet.reads_loads(2, LOAD_INTERVAL_S)
    await fleet.until(lambda: len(fleet.replicas) == 4)
    assert [each.drains for each in fleet.replicas] == [1, 0, 0, 0]
    fleet.supervisor.update()
    await fleet.until(lambda: "outriderd: all replicas are replaced" in fleet.said)
    await fleet.ended()


async def test_misuse_ends_a_fleet_that_was_never_ready_with_the_replica_s_sentence() -> None:
    fleet = Fleet(Bounds(2, 2, 8), codes=[2])
    with pytest.raises(MisuseError, match="replica 0 cannot be kept up: loaded"):
        await fleet.running
    assert [each.is_closed for each in fleet.replicas] == [True, True]


async def test_a_fleet_whose_replicas_all_fail_ends() -> None:
    fleet = Fleet(Bounds(1, 1, 8), codes=[1] * (MOST_RESTARTS + 1))
    while not fleet.running.done():
        fleet.now += 1.0
        await asyncio.sleep(0.001)
    with pytest.raises(FleetError, match="replica 0 cannot be kept up"):
        await fleet.running
    assert len(fleet.replicas) == MOST_RESTARTS + 1


async def test_asked_to_end_twice_replicas_are_asked_twice() -> None:
    fleet = Fleet(Bounds(1, 1, 8))
    await fleet.is_ready()
    fleet.replicas[0].ends_when_drained = False
    fleet.supervisor.end()
    await fleet.until(lambda: fleet.replicas[0].drains == 1)
    fleet.supervisor.end()
    assert fleet.replicas[0].drains == 2
    fleet.replicas[0].code = 0
    await fleet.ended()


async def test_answers_that_wait_get_another_replica() -> None:
    fleet = Fleet(Bounds(1, 2, 8))
    await fleet.is_ready()
    fleet.replicas[0].waiting = 3
    for _ in range(20):
        fleet.now += UP_AFTER_S / 4
        await asyncio.sleep(0.005)
        if len(fleet.replicas) == 2:
            break
    await fleet.until(lambda: len(fleet.replicas) == 2)
    assert "outriderd: 2 replicas in place of 1: answers wait" in fleet.said
    await fleet.ended()


async def test_one_that_failed_for_good_is_made_up_for_at_once_up_to_the_most() -> None:
    fleet = Fleet(Bounds(2, 3, 8))
    await fleet.is_ready()
    fleet.replicas[0].code = MISUSE
    await fleet.until(lambda: fleet.replicas[0].is_closed)
    await fleet.reads_loads(1, LOAD_INTERVAL_S)
    await fleet.until(lambda: len(fleet.replicas) == 3)
    assert [each.address.port for each in fleet.replicas] == [7070, 7071, 7072]
    assert "outriderd: 2 replicas in place of 1: too few are left" in fleet.said
    fleet.replicas[2].waiting = 3
    await fleet.reads_loads(10, UP_AFTER_S / 4)
    assert len(fleet.replicas) == 3
    await fleet.ended()


async def one_of_three_has_failed(number: int) -> tuple[Fleet, FakeReplica, FakeReplica]:
    """The fleet, and the two that serve."""
    fleet = Fleet(Bounds(1, 3, 8))
    await fleet.is_ready()
    fleet.supervisor.plan = fleet.supervisor.plan.resized(3)
    await fleet.until(lambda: fleet.supervisor.plan.is_settled)
    failed = fleet.replicas[number]
    failed.code = MISUSE
    await fleet.until(lambda: failed.is_closed)
    first, last = (each for each in fleet.replicas if each is not failed)
    return fleet, first, last


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("running", "drained"), [(8, 0), (4, 1)])
async def test_one_that_failed_for_good_is_not_what_makes_another_superfluous(
    number: int, running: int, drained: int
) -> None:
    fleet, first, last = await one_of_three_has_failed(number)
    first.written = f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n"
    await fleet.reads_loads(10, DOWN_AFTER_S / 4)
    assert (fleet.replicas[number].drains, first.drains, last.drains) == (0, 0, drained)
    assert ("outriderd: 1 replica in place of 2: replicas are idle" in fleet.said) == bool(drained)
    await fleet.ended()


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_one_that_failed_for_good_stays_left_out_when_a_replica_is_added_after_one_was_removed(
    number: int,
) -> None:
    fleet, first, last = await one_of_three_has_failed(number)
    await fleet.reads_loads(6, DOWN_AFTER_S / 4)
    await fleet.until(lambda: last.is_closed)
    first.waiting = 3
    await fleet.reads_loads(10, UP_AFTER_S / 4)
    assert [each.address for each in fleet.replicas[3:]] == [last.address]
    await fleet.ended()


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
