"""`fleet`: replicas that `outriderd fleet` keeps up, many clients, a replica killed every 20 s, and then a rolling
update: no answer fails, none differs, and only the clients of a replica that goes move.

The clients and what is counted of them are those of `replicas`; here nobody but the fleet itself starts replicas.
"""

import asyncio
import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from client.demo.children import Child, running
from client.demo.family import DemoModels, find_family
from client.link.stream import Access
from common.address import Address
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.background import in_background
from netem.experiments.service.replica_clients import (
    ARRIVAL_S,
    CLIENTS,
    SAMPLE_S,
    Clients,
    Phase,
    calm,
    find_truths,
    run_phase,
)
from netem.experiments.service.replica_report import CALM, KILL_INTERVAL_S, KILLING, REPLICAS, report_of
from netem.experiments.service.replicas import (
    CALM_ANSWERS,
    CALM_S,
    PASS_MS,
    QUICK_CALM_ANSWERS,
    QUICK_CALM_S,
    SERVER_ARGUMENTS,
)

UPDATE = "a rolling update"
_KILLS, _QUICK_KILLS = 15, 2
_START_S, _END_S = 600.0, 120.0
_PATIENCE_S = 10.0
_NOTICED_S = 2.0
"""Within which the fleet says that a replica is gone."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy of the environment does not lead to this machine."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the fleet says of itself: its replicas' states in their order, and whether it updates them."""

    states: tuple[str, ...]
    is_updating: bool

    @property
    def serving(self) -> list[int]:
        """Their numbers."""
        return [number for number, state in enumerate(self.states) if state == "serving"]

    @property
    def is_settled(self) -> bool:
        return not self.is_updating and len(self.serving) == REPLICAS


@dataclass
class Absences:
    """Which replicas are away, and for how long those were that are back."""

    since: dict[int, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def note(self, serving: Sequence[int], now: float) -> None:
        for number in range(REPLICAS):
            if number not in serving:
                self.since.setdefault(number, now)
            elif (since := self.since.pop(number, None)) is not None:
                self.seconds.append(now - since)


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    calm_s, answers = (QUICK_CALM_S, QUICK_CALM_ANSWERS) if request.quick else (CALM_S, CALM_ANSWERS)
    planned = _QUICK_KILLS if request.quick else _KILLS
    absences = Absences()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        port = _free_ports(REPLICAS + 1)
        first, page = Address("127.0.0.1", port), Address("127.0.0.1", port + REPLICAS)
        advance("start of the fleet", 0.0)
        fleet = await stack.enter_async_context(_fleet(family, first, page))
        await _started(fleet, page)
        addresses = [Address(first.host, first.port + number) for number in range(REPLICAS)]
        truths = await find_truths(Access(addresses[0]), family, request.seed, folder)
        clients = Clients(addresses, truths, folder)
        asking = (clients.come_and_go(index) for index in range(CLIENTS))
        async with in_background(*asking, _note_absences(clients, addresses, page, absences)):
            advance("arrival of the clients", 0.1)
            await asyncio.sleep(CLIENTS * ARRIVAL_S)
            advance(CALM, 0.15)
            phases = {CALM: await run_phase(clients, calm(clients, calm_s, answers), lambda: addresses)}
            advance(KILLING, 0.25)
            killing = asyncio.create_task(_kill(clients, addresses, fleet, page, planned))
            phases[KILLING] = await run_phase(clients, killing, lambda: [])
            restarts_s = tuple(absences.seconds)
            advance(UPDATE, 0.8)
            phases[UPDATE] = await run_phase(clients, _update(fleet, page), lambda: [])
        advance("end of the fleet", 0.95)
        fleet.ask_to_end()
        async with asyncio.timeout(_END_S):
            await fleet.finished()
    return make_report(phases, killing.result(), planned, restarts_s)


def _fleet(family: DemoModels, first: Address, page: Address) -> Any:
    models = ("--target", str(family.target), "--draft", str(family.draft), *SERVER_ARGUMENTS)
    listening = ("--listen", str(first), "--metrics", str(page))
    return running("outriderd", "fleet", "--replicas", str(REPLICAS), *models, *listening)


async def look(page: Address) -> Health:
    def get() -> Any:
        try:
            with _DIRECT.open(f"http://{page}/health", timeout=_PATIENCE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as none_serves:
            return json.load(none_serves)

    said = await asyncio.to_thread(get)
    return Health(tuple(each["state"] for each in said["replicas"]), said["updating"])


async def _note_absences(clients: Clients, addresses: Sequence[Address], page: Address, absences: Absences) -> None:
    """A client of a replica that does not serve has cause to move."""
    while True:
        with suppress(OSError):  # a look in vain must not be the last one
            serving, now = (await look(page)).serving, time.monotonic()
            absences.note(serving, now)
            clients.away_at |= {address: now for number, address in enumerate(addresses) if number not in serving}
        await asyncio.sleep(SAMPLE_S)


async def _started(fleet: Child, page: Address) -> None:
    """Raises DemoError if the fleet ends, and TimeoutError if it takes too long."""

    async def settled() -> None:
        while True:
            with suppress(OSError):
                await _settled(page)
                return
            await asyncio.sleep(SAMPLE_S)

    ways = {asyncio.create_task(settled()), asyncio.create_task(fleet.finished())}
    try:
        async with asyncio.timeout(_START_S):
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _settled(page: Address) -> None:
    """Raises TimeoutError where a replica does not come up."""
    async with asyncio.timeout(_START_S):
        while not (await look(page)).is_settled:
            await asyncio.sleep(SAMPLE_S)


async def _kill(clients: Clients, addresses: Sequence[Address], fleet: Child, page: Address, planned: int) -> int:
    """Kills a replica every 20 s, in turn, of those that serve then, and never the last one. Returns how many, once all
    serve again."""
    kills, began = 0, time.monotonic()
    for index in range(planned):
        serving = (await look(page)).serving
        if len(serving) > 1:
            in_turn = (number % REPLICAS for number in range(index, index + REPLICAS))
            address = addresses[next(number for number in in_turn if number in serving)]
            clients.away_at[address] = time.monotonic()
            _process_of(address, fleet).kill()
            kills += 1
        await asyncio.sleep(max(_NOTICED_S, began + (index + 1) * KILL_INTERVAL_S - time.monotonic()))
    await _settled(page)
    return kills


def _process_of(address: Address, fleet: Child) -> psutil.Process:
    found = psutil.Process(fleet.pid).children(recursive=True)
    return next(each for each in found if str(address) in each.cmdline())


async def _update(fleet: Child, page: Address) -> None:
    fleet.send_signal(signal.SIGHUP)
    await asyncio.sleep(_NOTICED_S)
    await _settled(page)


def _free_ports(wanted: int) -> int:
    """The first of so many consecutive free ports of loopback."""
    while True:
        with ExitStack() as held, suppress(OSError, OverflowError):
            first = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for port in range(first + 1, first + wanted):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return int(first)


def make_report(phases: dict[str, Phase], kills: int, planned: int, restarts_s: Sequence[float]) -> Report:
    restarted = f"{median(restarts_s):.1f} s in the median and {max(restarts_s):.1f} s at most" if restarts_s else "-"
    remarks = (
        f"`outriderd fleet --replicas {REPLICAS}` started and restarted the replicas, as Ray actors on this machine, "
        "without a store. A client lists and chooses; nothing stands before the replicas.",
        f"A pass takes at least {PASS_MS:g} ms, so that it waits rather than computes.",
        f"{kills} replicas were killed without notice, one every {KILL_INTERVAL_S:g} s, in turn, but not the last one "
        f"that served. A killed one did not serve for {restarted}. Then SIGHUP: each was drained and replaced, one "
        "after another.",
    )
    title = "Replicas that a fleet keeps up under load"
    return report_of(title, phases, kills, planned, remarks, {"restarts_s": list(restarts_s)})
