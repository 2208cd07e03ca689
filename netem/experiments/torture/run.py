"""`torture`: whether an answer equals the uninterrupted one, token for token, under faults of its link and its server.

A real server process and real connections in real time. The questions and the faults are drawn from the seed; the
moments at which faults meet answers depend on real time.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from client.assembly import client_for
from client.demo.asking import prompt_tokens
from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import Address
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.references import make_reference_questions
from netem.experiments.torture.fault_injector import FaultInjector
from netem.experiments.torture.outcome import MAX_NEW_TOKENS
from netem.experiments.torture.plan import REFERENCES_SHARE, FaultPlan, draw_fault_plan
from netem.experiments.torture.report import make_report
from netem.experiments.torture.server_with_spare import ServerWithSpare
from netem.links.breakable import BreakableProxy

ANSWERS = 1000
QUICK_ANSWERS = 40
QUESTIONS = 80  # half of them by each rule
QUICK_QUESTIONS = 10
TOGETHER = 16
LEASE_SECONDS = 4
DRAFTS = (None, "lookup")  # None: the draft model that the server offers first; `lookup` needs no model
SERVER = ("--pace-pass", "60ms", "--lease", str(LEASE_SECONDS))
"""Passes slow enough that faults happen in mid-answer."""

_MOST_SECONDS = 1200.0
"""No answer begins later, so that on a slow machine there are fewer."""

_KILLING_SHARE = 0.8
"""Servers are killed only in the first answers, this share of all, so that the last server makes all the others."""


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    count = QUICK_ANSWERS if request.quick else ANSWERS
    wanted = QUICK_QUESTIONS if request.quick else QUESTIONS
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        nowhere = Address("127.0.0.1", 9)
        proxies = [await stack.enter_async_context(BreakableProxy(nowhere)) for _ in range(TOGETHER)]
        servers = ServerWithSpare(stack, partial(serving, family, *SERVER), partial(_redirect, proxies))
        access = Access(await servers.begin())
        choices = [DraftChoice(draft, threads=HALF_THE_CORES) for draft in DRAFTS]
        clients = [await stack.enter_async_context(client_for(access, choice, cache, no_bar)) for choice in choices]
        texts = choose_prompts(family.prompts, wanted // 2, request.seed)
        described = clients[0].description
        room_tokens = described.context - MAX_NEW_TOKENS
        prompts = [prompt_tokens(clients[0], text)[-room_tokens:] for text in texts]
        questions = await asyncio.to_thread(
            make_reference_questions,
            family.target,
            prompts,
            described.end_tokens,
            MAX_NEW_TOKENS,
            request.seed,
            advance,
            REFERENCES_SHARE,
        )
        lengths = [len(question.reference.answer) for question in questions]
        plans = [
            draw_fault_plan(request.seed, index, lengths, may_kill=index < _KILLING_SHARE * count)
            for index in range(count)
        ]
        injector = FaultInjector(questions, servers)
        waiting = _in_time(plans)
        reporting = asyncio.create_task(_report_progress(injector, count, advance))
        try:
            async with asyncio.TaskGroup() as workers:
                for index, proxy in enumerate(proxies):
                    workers.create_task(injector.run_worker(clients[index % len(clients)], proxy, waiting))
        finally:
            reporting.cancel()
        await asyncio.sleep(LEASE_SECONDS + 1)
        for client in clients:
            await client.connection.close()
        counters, idle_counters = await servers.end()
    return make_report(injector, count, counters, idle_counters)


def _redirect(proxies: Sequence[BreakableProxy], address: Address) -> None:
    for proxy in proxies:
        proxy.target = address


def _in_time(plans: Sequence[FaultPlan]) -> Iterator[FaultPlan]:
    latest_s = time.monotonic() + _MOST_SECONDS
    return takewhile(lambda _: time.monotonic() < latest_s, plans)


async def _report_progress(injector: FaultInjector, count: int, advance: Advance) -> None:
    while True:
        done = len(injector.outcomes)
        advance(f"{done} of {count} answers", REFERENCES_SHARE + (1 - REFERENCES_SHARE) * done / count)
        await asyncio.sleep(0.5)
