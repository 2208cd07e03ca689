"""Replicas as Ray actors: each in a placement group of its own, with the devices that its ranks need on one machine.

The shell around Ray, and the only module that imports it. It may not know what the fleet does next.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

# Before Ray is imported, which reads it then: by default it reports to its makers.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from common.address import Address
from common.programs.interruption import TERMINATED
from common.protocol.errors import MisuseError
from server.supervisor.devices import Needs
from server.supervisor.replica import Heard, Launch, ReplicaProcess
from server.supervisor.supervisor import ReplicaLostError

_AUTHENTICATION = "RAY_AUTH_MODE"
_KNOCK_S = 5.0
_ATTEMPTS = 3
_OBJECT_STORE_BYTES = 80 * 2**20  # hardly anything is kept in it, and this is the least that Ray takes
_CLOSE_S = 10.0  # of a machine that is silent; Ray kills what is left once it hears of it
_CALLS = 4  # of one actor at a time: a scrape that waits must not hold up a drain

Result = TypeVar("Result")


@contextmanager
def connected(address: Address | None, needs: Needs) -> Iterator[Sequence[Mapping[str, float]]]:
    """Around all use of Ray: the one at `address`, or one of this machine that ends with the block. Yields what each
    machine has.

    Raises MisuseError where no Ray can be reached, and SystemExit upon SIGTERM while one starts.
    """
    if address is not None:
        _knock(address)
    try:
        if address is None:
            _start_here(needs)
        else:
            ray.init(address=str(address), log_to_driver=False, logging_level=logging.ERROR)
    except SystemExit as ended:  # Ray handles SIGTERM from here on, with exit codes of its own
        raise SystemExit(TERMINATED) from ended
    # Of whatever type it is: Ray raises a plain Exception where its processes take too long to start.
    except Exception as error:
        where = f"the Ray at {address} cannot be used" if address else "Ray cannot be started here"
        why, *_ = str(error).splitlines() or [type(error).__name__]
        # Ray looks for a token by itself only where it looks for the cluster by itself too.
        wants_token = address is not None and _AUTHENTICATION not in os.environ
        hint = f"; if it wants a token, set {_AUTHENTICATION}=token" if wants_token else ""
        raise MisuseError(f"{where}: {why}{hint}") from error
    try:
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        yield [node["Resources"] for node in nodes if node["Alive"]]
    finally:
        ray.shutdown()


def _start_here(needs: Needs) -> None:
    """Ray gives its processes half a minute to start, which may be too little while nothing of it is in memory yet."""
    for attempt in range(_ATTEMPTS):
        try:
            ray.init(
                address="local",  # also where RAY_ADDRESS names another
                # On a CPU any number of replicas may be tried; they share the cores.
                num_cpus=max(os.cpu_count() or 1, needs.cpus),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=_OBJECT_STORE_BYTES,
            )
            return
        except Exception:
            ray.shutdown()
            if attempt == _ATTEMPTS - 1:
                raise


def _knock(address: Address) -> None:
    """Ray itself tries for minutes where nobody answers."""
    try:
        socket.create_connection((address.host, address.port), _KNOCK_S).close()
    except OSError as error:
        raise MisuseError(
            f"no Ray answers at {address} ({error.strerror or error}); start it with `ray start --head`, or leave out "
            "--ray to have one started here"
        ) from error


class RayReplica:
    """As `RunningReplica`: an actor with a `ReplicaProcess`, started at once or once its devices are free."""

    def __init__(self, launch: Launch, needs: Needs):
        self._group: PlacementGroup = placement_group([needs.bundle], strategy="STRICT_PACK")
        options: dict[str, Any] = {
            "num_cpus": needs.bundle.get("CPU", 0),
            "num_gpus": needs.bundle.get("GPU", 0),
            "max_concurrency": _CALLS,
            "max_restarts": 0,  # restarts are the supervisor's, for a process that ends as for an actor
            "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group),
        }
        actor = ray.remote(ReplicaProcess).options(**options)
        self._actor: Any = actor.remote(launch, ray.util.get_node_ip_address)
        self._has_begun = False

    async def poll(self) -> Heard:
        heard: Heard = await _asked(self._actor.poll.remote())
        self._has_begun = True
        return heard

    def drain(self) -> None:
        if self._has_begun:
            self._actor.drain.remote()
        else:  # it may wait for devices
            ray.kill(self._actor)

    def kill(self) -> None:
        self._actor.kill.remote()

    async def tell(self, addresses: Sequence[Address]) -> bool:
        return await _asked(self._actor.tell.remote(addresses))

    async def page(self) -> str:
        return await _asked(self._actor.page.remote())

    async def close(self) -> None:
        if self._has_begun:
            with suppress(ReplicaLostError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await _asked(self._actor.close.remote())
        ray.kill(self._actor)
        remove_placement_group(self._group)


async def _asked(reply: Awaitable[Result]) -> Result:
    try:
        return await reply
    except TimeoutError:  # of the call, which Ray raises as an error of its own too: the actor lives
        raise
    except RayError as error:
        raise ReplicaLostError(f"its Ray actor is gone ({type(error).__name__})") from error
