"""A fleet lives as its plan says: replicas are started, told of each other, restarted, replaced, and drained."""

import asyncio
import json

import pytest

from common.address import Address
from common.programs.command_line import MISUSE
from common.protocol.errors import MisuseError
from server.supervisor.plan import MOST_RESTARTS
from server.supervisor.replica import Heard
from server.supervisor.scaling import DOWN_AFTER_S, UP_AFTER_S, Bounds
from server.supervisor.supervisor import LOAD_INTERVAL_S, FleetError, ReplicaLostError
from tests.server.supervisor.fake_fleet import FakeReplica, Fleet

pytestmark = pytest.mark.usefixtures("quick")


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
    await fleet.until(lambda: len(third.told[-1]) == 2 and first.offered > offered)
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


@pytest.mark.parametrize(
    ("code", "is_lost", "said"),
    [
        (0, False, "has drained"),
        (-9, False, "ended by SIGKILL while it drained"),
        (1, False, "ended with exit code 1 while it drained"),
        (None, True, "was lost while it drained"),
    ],
)
async def test_how_one_ends_that_drains_is_told(code: int | None, is_lost: bool, said: str) -> None:
    fleet = Fleet(Bounds(2, 2, 8))
    await fleet.is_ready()
    first = fleet.replicas[0]
    first.ends_when_drained = False
    fleet.supervisor.update()
    await fleet.until(lambda: first.drains == 1)
    first.code, first.is_lost = code, is_lost
    await fleet.until(lambda: first.is_closed)
    assert f"outriderd: replica 0 {said}" in fleet.said
    await fleet.ended()


@pytest.mark.parametrize("code", [-15, None])
async def test_one_that_is_ended_while_it_loads_has_drained(monkeypatch: pytest.MonkeyPatch, code: int | None) -> None:
    async def load(replica: FakeReplica) -> Heard:
        await asyncio.sleep(0)
        if replica.drains and code is None:
            raise ReplicaLostError("its Ray actor is gone")
        return Heard((), None, code if replica.drains else None)

    monkeypatch.setattr(FakeReplica, "poll", load)
    fleet = Fleet(Bounds(1, 1, 8))
    await fleet.until(lambda: len(fleet.replicas) == 1)
    fleet.supervisor.end()
    await fleet.ended()
    assert "outriderd: replica 0 has drained" in fleet.said


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
