"""`replicas`: three replicas that share a store, many clients, and a replica killed every 20 s: no answer fails, none
differs, and only the clients of a killed replica move.

First nothing is killed, and the load of the replicas is compared. Then replicas are killed in turn, each is started
anew, and once the store is killed and started anew, too.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.demo.children import Child, running
from client.demo.family import DemoModels, find_family
from client.link.stream import Access
from common.address import Address, parse_destination
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.background import in_background
from netem.experiments.service.local_store import LocalStore
from netem.experiments.service.replica_clients import ARRIVAL_S, CLIENTS, Clients, Phase, calm, find_truths, run_phase
from netem.experiments.service.replica_report import CALM, KILL_INTERVAL_S, KILLING, REPLICAS, report_of

PASS_MS = 200.0
"""The least that a pass takes: so long that it waits rather than computes, for the replicas share this machine."""

SERVER_ARGUMENTS = ("--threads", "1", "--pace-pass", f"{PASS_MS:g}ms")
CALM_S, QUICK_CALM_S = 60.0, 20.0
CALM_ANSWERS, QUICK_CALM_ANSWERS = 240, 48
"""Of a fair choice, so that its chance spread is well below what may be."""

_KILLS, _QUICK_KILLS = 8, 2
_STORE_IS_GONE_S = 5.0


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    calm_s, answers = (QUICK_CALM_S, QUICK_CALM_ANSWERS) if request.quick else (CALM_S, CALM_ANSWERS)
    planned = _QUICK_KILLS if request.quick else _KILLS
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        store = LocalStore(folder)
        stack.callback(store.end)

        async def start() -> Child:
            return await stack.enter_async_context(_replica(family, store))

        advance("start of the replicas", 0.0)
        servers = [await start() for _ in range(REPLICAS)]
        up = {parse_destination(await server.ready()): server for server in servers}
        truths = await find_truths(Access(next(iter(up))), family, request.seed, folder)
        clients = Clients(list(up), truths, folder)
        async with in_background(*(clients.come_and_go(index) for index in range(CLIENTS))):
            advance("arrival of the clients", 0.1)
            await asyncio.sleep(CLIENTS * ARRIVAL_S)
            advance(CALM, 0.15)
            phases = {CALM: await run_phase(clients, calm(clients, calm_s, answers), lambda: list(up))}
            advance(KILLING, 0.3)
            killing = asyncio.create_task(_kill(clients, up, start, store, planned))
            phases[KILLING] = await run_phase(clients, killing, lambda: [])
    return make_report(phases, killing.result(), planned)


def _replica(family: DemoModels, store: LocalStore) -> Any:
    models = ("--target", str(family.target), "--draft", str(family.draft), *SERVER_ARGUMENTS)
    return running("outriderd", "serve", *models, "--listen", "127.0.0.1:0", "--fleet-store", store.url)


async def _kill(
    clients: Clients, up: dict[Address, Child], start: Callable[[], Any], store: LocalStore, planned: int
) -> int:
    """Returns how many were killed; not those of which the one before was not replaced within 20 s."""
    kills, due = 0, time.monotonic()
    for index in range(planned):
        if time.monotonic() - due >= KILL_INTERVAL_S:
            due += KILL_INTERVAL_S
            continue
        address = next(iter(up))  # the oldest
        clients.away_at[address] = time.monotonic()
        up.pop(address).kill()
        kills += 1
        if index == planned // 2:
            store.end()
            await asyncio.sleep(_STORE_IS_GONE_S)
            await asyncio.to_thread(store.begin)
        server = await start()
        up[parse_destination(await server.ready())] = server
        due += KILL_INTERVAL_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return kills


def make_report(phases: dict[str, Phase], kills: int, planned: int) -> Report:
    remarks = (
        f"A pass takes at least {PASS_MS:g} ms, so that it waits rather than computes.",
        f"{kills} replicas were killed without notice, one every {KILL_INTERVAL_S:g} s, the oldest each time; a new "
        f"one took its place. After half of them the store was gone for {_STORE_IS_GONE_S:g} s and came back empty.",
    )
    return report_of("Replicas that are killed under load", phases, kills, planned, remarks, {})
