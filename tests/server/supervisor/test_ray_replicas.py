"""Replicas as actors of a real Ray that is started here: they serve, die, are replaced, drain, and nothing stays."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from common.address import Address
from common.programs.interruption import TERMINATED
from common.protocol.errors import MisuseError
from server.supervisor.command import launch_of
from server.supervisor.devices import Needs
from server.supervisor.scaling import Bounds
from server.supervisor.supervisor import ReplicaLostError, Supervisor
from tests.server.supervisor.stub import launch

pytest.importorskip("ray", reason="Ray is not installed: pip install '.[fleet]'")

from ray.exceptions import RayActorError, RayError, RayTaskError

from server.supervisor.ray_replicas import RayReplica, _asked, connected

PATIENCE_S = 60.0
NEEDS = Needs(2, 1, "cpu")


def stubs() -> dict[str, psutil.Process]:
    """By the addresses at which they say that they listen."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Ray's own come and go
            arguments = process.cmdline()
            if "stubbed_serve.py" in " ".join(arguments):
                found[arguments[arguments.index("--listen") + 1]] = process
    return found


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.05)


async def live() -> list[str]:
    """What a fleet of two says whose first replica is killed, which is then updated and ended."""
    said: list[str] = []
    first = launch()
    supervisor = Supervisor(lambda number: RayReplica(launch_of(first, number), NEEDS), Bounds(2, 2, 8), said.append)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: said and said[-1].startswith("ready on "))
    assert said[-1] == "ready on 127.0.0.1:7070,127.0.0.1:7071"
    assert b'vllm:num_requests_waiting{replica="1"} 0.0' in (await supervisor.metrics()).content

    os.kill(stubs()["127.0.0.1:7070"].pid, signal.SIGKILL)
    await until(lambda: said.count("outriderd: replica 0 serves on 127.0.0.1:7070") == 2)
    before = {address: process.pid for address, process in stubs().items()}
    supervisor.update()
    await until(lambda: "outriderd: all replicas are replaced" in said)
    after = {address: process.pid for address, process in stubs().items()}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    supervisor.end()
    async with asyncio.timeout(PATIENCE_S):
        await running
    return said


def test_they_live_and_end_with_ray() -> None:
    children = set(psutil.Process().children(recursive=True))
    with connected(None, NEEDS) as machines:
        NEEDS.check(machines)
        said = asyncio.run(live())
        assert stubs() == {}
    assert any("replica 0 ended by SIGKILL and starts again in 1 s" in line for line in said)
    drained = [line for line in said if line.endswith("has drained")]
    # One after the other in the update, both at once at the end.
    expected = [f"outriderd: replica {number} has drained" for number in (0, 1)]
    assert drained[:2] == expected
    assert sorted(drained[2:]) == expected
    left = set(psutil.Process().children(recursive=True)) - children
    assert not psutil.wait_procs(list(left), timeout=PATIENCE_S)[1]


def test_of_a_ray_that_lets_nobody_in_it_is_said_how_to_bring_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr("ray.init", refuse)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with (
        socket.create_server(("127.0.0.1", 0)) as head,
        pytest.raises(MisuseError, match="Failed to connect to Ray cluster; if it wants a token, set RAY_AUTH_MODE"),
        connected(Address("127.0.0.1", head.getsockname()[1]), NEEDS),
    ):
        pass


def test_a_ray_that_cannot_be_reached_is_one_sentence() -> None:
    with (
        pytest.raises(MisuseError, match=r"no Ray answers at 127\.0\.0\.1:1 \(Connection refused\); start it"),
        connected(Address("127.0.0.1", 1), NEEDS),
    ):
        pass


def test_sigterm_while_ray_starts_ends_with_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle_sigterm(**_: object) -> None:
        raise SystemExit(signal.SIGTERM)  # as Ray's handler does

    monkeypatch.setattr("ray.init", handle_sigterm)
    with pytest.raises(SystemExit) as ended, connected(None, NEEDS):
        pytest.fail("Ray has not started")
    assert ended.value.code == TERMINATED


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RayTaskError("page", "", TimeoutError("nobody fills it")).as_instanceof_cause(), TimeoutError),
        (RayTaskError("page", "", OSError("it is closed")).as_instanceof_cause(), ReplicaLostError),
        (RayActorError(), ReplicaLostError),
    ],
)
async def test_an_actor_that_waits_in_vain_is_not_gone(error: RayError, told: type[Exception]) -> None:
    async def reply() -> None:
        raise error

    with pytest.raises(told):
        await _asked(reply())
