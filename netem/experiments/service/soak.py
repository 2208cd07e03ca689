"""`soak`: half an hour of apps over a link that breaks: memory, threads and files of both processes must not grow, and
every answer must be the target's own.

Real processes, connections and time. The seed gives the same requests and faults; how they coincide does not repeat.
"""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from common.address import parse_destination
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.app_requests import make_app_requests
from netem.experiments.service.apps import Apps, asking
from netem.experiments.service.background import in_background
from netem.experiments.service.endpoint import endpoint
from netem.experiments.service.link_faults import inject_link_faults
from netem.experiments.service.process_monitor import ProcessMonitor
from netem.experiments.service.soak_report import SoakResult, make_report
from netem.experiments.torture.plan import FaultKind
from netem.links.breakable import BreakableProxy

SECONDS = 1920.0
QUICK_SECONDS = 90.0
APPS = 4
MAX_NEW_TOKENS = 40  # tokens of an answer
LEASE_SECONDS = 4
SERVER = ("--pace-pass", "30ms", "--lease", str(LEASE_SECONDS))

_TEXTS = 30
_QUICK_TEXTS = 5
_REFERENCES_SHARE = 0.05  # of the whole run, roughly


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    seconds = QUICK_SECONDS if request.quick else SECONDS
    texts = choose_prompts(family.prompts, _QUICK_TEXTS if request.quick else _TEXTS, request.seed)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        server = await stack.enter_async_context(serving(family, *SERVER))
        idle = await stack.enter_async_context(serving(family, *SERVER))
        address = parse_destination(await server.ready())
        requests = await make_app_requests(
            family.target, address, cache, texts, MAX_NEW_TOKENS, request.seed, advance, _REFERENCES_SHARE
        )
        proxy = await stack.enter_async_context(BreakableProxy(address))
        endpoint_process, endpoint_address = await stack.enter_async_context(endpoint(proxy.address, cache, APPS))
        await idle.ready()
        await idle.stop()
        apps, injected = Apps(endpoint_address, requests), Counter[FaultKind]()
        monitor = ProcessMonitor({"outriderd": server.pid, "outrider serve": endpoint_process.pid})
        began_s = time.monotonic()
        meanwhile = in_background(
            monitor.watch(),
            inject_link_faults(proxy, injected, request.seed),
            _report_progress(apps, began_s, seconds, advance),
        )
        async with meanwhile, asking(apps, APPS, request.seed):
            await asyncio.sleep(seconds)
        await endpoint_process.stop()
        # A moved connection is silent for good, and the server's own pings find that out after longer than a lease.
        proxy.reset()
        # Until every lease has expired.
        await asyncio.sleep(LEASE_SECONDS + 1)
        await server.stop()
        result = SoakResult(
            apps, injected, monitor.readings, server.summary(), idle.summary(), time.monotonic() - began_s
        )
    return make_report(result, APPS, MAX_NEW_TOKENS)


async def _report_progress(apps: Apps, began_s: float, seconds: float, advance: Advance) -> None:
    while True:
        share = min(1.0, (time.monotonic() - began_s) / seconds)
        advance(f"{apps.verdicts.total()} answers", _REFERENCES_SHARE + (1 - _REFERENCES_SHARE) * share)
        await asyncio.sleep(1.0)
