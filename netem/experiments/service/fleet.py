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
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from client.demo.children import Child, running
from client.demo.family import DemoModels, find_family
from client.link.stream import Access
from common.address import Address
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.replicas import (
    ARRIVAL_S,
    CALM,
    CLIENTS,
    KILL_INTERVAL_S,
    KILLING,
    REPLICAS,
    Clients,
    Phase,
    find_truths,
    report_of,
    run_phase,
)

UPDATE = "a rolling update"
PASS_MS = 200.0
"""The least that a pass takes: so long that it waits rather than computes, for the replicas share this machine."""

_CALM_S, _QUICK_CALM_S = 60.0, 20.0
_KILLING_S, _QUICK_KILLING_S = 300.0, 20.0
_LOOK_S = 0.25
_START_S, _END_S = 600.0, 120.0
_PATIENCE_S = 10.0
_NOTICED_S = 2.0
"""Within which the fleet says that a replica is gone."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the fleet says of itself: its replicas' states in their order, and whether it updates them."""

    states: tuple[str, ...]
    is_updating: bool

    @property
    def is_settled(self) -> bool:
        return not self.is_updating and self.states == ("serving",) * REPLICAS


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    calm_s = _QUICK_CALM_S if request.quick else _CALM_S
    killing_s = _QUICK_KILLING_S if request.quick else _KILLING_S
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
        doing = [asyncio.create_task(clients.come_and_go(index)) for index in range(CLIENTS)]
        doing.append(asyncio.create_task(_note_absences(clients, addresses, page)))
        try:
            advance("arrival of the clients", 0.1)
            await asyncio.sleep(CLIENTS * ARRIVAL_S)
            advance(CALM, 0.15)
            phases = {CALM: await run_phase(clients, asyncio.sleep(calm_s), lambda: addresses)}
            advance(KILLING, 0.25)
            until = time.monotonic() + killing_s
            killing = asyncio.create_task(_kill(clients, addresses, fleet, page, until))
            phases[KILLING] = await run_phase(clients, killing, lambda: [])
            advance(UPDATE, 0.8)
            phases[UPDATE] = await run_phase(clients, _update(fleet, page), lambda: [])
        finally:
            for each in doing:
                each.cancel()
            await asyncio.gather(*doing, return_exceptions=True)
        advance("end of the fleet", 0.95)
        fleet.ask_to_end()
        async with asyncio.timeout(_END_S):
            await fleet.finished()
    return make_report(phases, killing.result())


def _fleet(family: DemoModels, first: Address, page: Address) -> Any:
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", "1")
    listening = ("--listen", str(first), "--metrics", str(page))
    return running(
        "outriderd", "fleet", "--replicas", str(REPLICAS), *models, *listening, "--pace-pass", f"{PASS_MS:g}ms"
    )


async def _look(page: Address) -> Health:
    def get() -> Any:
        try:
            with urllib.request.urlopen(f"http://{page}/health", timeout=_PATIENCE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as none_serves:
            return json.load(none_serves)

    said = await asyncio.to_thread(get)
    return Health(tuple(each["state"] for each in said["replicas"]), said["updating"])


async def _note_absences(clients: Clients, addresses: Sequence[Address], page: Address) -> None:
    """A client of a replica that does not serve has cause to move."""
    while True:
        health = await _look(page)
        serving = [address for address, state in zip(addresses, health.states, strict=False) if state == "serving"]
        now = time.monotonic()
        clients.killed_at |= {address: now for address in addresses if address not in serving}
        await asyncio.sleep(_LOOK_S)


async def _started(fleet: Child, page: Address) -> None:
    """Raises DemoError if the fleet ends, and TimeoutError if it takes too long."""

    async def settled() -> None:
        while True:
            with suppress(OSError):
                await _settled(page)
                return
            await asyncio.sleep(_LOOK_S)

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
    while not (await _look(page)).is_settled:
        await asyncio.sleep(_LOOK_S)


async def _kill(clients: Clients, addresses: Sequence[Address], fleet: Child, page: Address, until: float) -> int:
    """Returns how many were killed, in turn."""
    for index in count():
        began = time.monotonic()
        if began >= until:
            return index
        address = addresses[index % len(addresses)]
        clients.killed_at[address] = began
        _process_of(address, fleet).kill()
        await asyncio.sleep(_NOTICED_S)
        await _settled(page)
        await asyncio.sleep(max(0.0, began + KILL_INTERVAL_S - time.monotonic()))
    raise AssertionError


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


def make_report(phases: dict[str, Phase], kills: int) -> Report:
    remarks = (
        f"`outriderd fleet --replicas {REPLICAS}` started and restarted the replicas, as Ray actors on this machine, "
        "without a store. A client lists and chooses; nothing stands before the replicas.",
        f"A pass takes at least {PASS_MS:g} ms, so that it waits rather than computes.",
        f"{kills} replicas were killed without notice, in turn, each once the fleet had replaced the one before and "
        f"{KILL_INTERVAL_S:g} s were over. Then SIGHUP: each was drained and replaced, one after another.",
    )
    return report_of("Replicas that a fleet keeps up under load", phases, remarks, {"kills": kills})
