"""`soak`: half an hour of apps that ask, leave and come back over a link that breaks: what both processes hold must
stay as it was, and every answer must be the target's own.

Real processes, connections and time. The seed gives the same questions and cuts; when they meet does not repeat.
"""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from client.assembly import client_for
from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import parse_destination
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.service.apps import Apps, ask_together
from netem.experiments.service.cuts import cut_again_and_again
from netem.experiments.service.endpoint import endpoint
from netem.experiments.service.gauges import Gauges
from netem.experiments.service.questions import make_questions
from netem.experiments.service.soak_report import Soaked, make_report
from netem.experiments.torture.plan import Kind
from netem.links.breakable import BreakableProxy

SECONDS = 1920.0
QUICK_SECONDS = 90.0
APPS = 4
LONGEST = 40  # tokens of an answer
LEASE_SECONDS = 4
SERVER = ("--pace-pass", "30ms", "--lease", str(LEASE_SECONDS))

_TEXTS = 30
_QUICK_TEXTS = 5
_REFERENCES = 0.05  # of the whole run, roughly


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    seconds = QUICK_SECONDS if request.quick else SECONDS
    texts = choose_prompts(family.prompts, _QUICK_TEXTS if request.quick else _TEXTS, request.seed)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        server = await stack.enter_async_context(serving(family, *SERVER))
        idle = await stack.enter_async_context(serving(family, *SERVER))
        address = parse_destination(await server.ready())
        async with client_for(Access(address), DraftChoice(threads=HALF_THE_CORES), cache, no_bar) as client:
            questions = await asyncio.to_thread(
                make_questions, family.target, texts, client, LONGEST, request.seed, advance, _REFERENCES
            )
        proxy = await stack.enter_async_context(BreakableProxy(address))
        asked, asked_at = await stack.enter_async_context(endpoint(proxy.address, cache, APPS))
        await idle.ready()
        await idle.stop()
        apps, made = Apps(asked_at, questions), Counter[Kind]()
        gauges = Gauges({"outriderd": server.pid, "outrider serve": asked.pid})
        began = time.monotonic()
        beside = [
            asyncio.create_task(gauges.watch()),
            asyncio.create_task(cut_again_and_again(proxy, made, request.seed)),
            asyncio.create_task(_tell(apps, began, seconds, advance)),
        ]
        try:
            await ask_together(apps, APPS, began + seconds, request.seed)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        await asked.stop()
        # What was left to come back to has had its time.
        await asyncio.sleep(LEASE_SECONDS + 1)
        await server.stop()
        soaked = Soaked(apps, made, gauges.readings, server.summary(), idle.summary(), time.monotonic() - began)
    return make_report(soaked, APPS, LONGEST)


async def _tell(apps: Apps, began: float, seconds: float, advance: Advance) -> None:
    while True:
        share = min(1.0, (time.monotonic() - began) / seconds)
        advance(f"{apps.verdicts.total()} answers", _REFERENCES + (1 - _REFERENCES) * share)
        await asyncio.sleep(1.0)
