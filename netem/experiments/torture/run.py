"""`torture`: whether an answer is the uninterrupted one, token for token, whatever is done to its link and its server.

A real server process and real connections in real time. How much of a run can be repeated is said in the report: the
questions and the cuts are drawn from the seed, and what they meet is not.
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
from netem.experiments.torture.fault_injector import Torment
from netem.experiments.torture.plan import Generation, draw_generation
from netem.experiments.torture.questions import REFERENCES, make_questions
from netem.experiments.torture.report import make_report
from netem.experiments.torture.servers import Servers
from netem.links.breakable import BreakableProxy

GENERATIONS = 1000
QUICK_GENERATIONS = 40
QUESTIONS = 80  # half of them by each rule
QUICK_QUESTIONS = 10
TOGETHER = 16
LEASE_SECONDS = 4
DRAFTS = (None, "lookup")  # the family's own, whatever its name, and the one that needs no model
SERVER = ("--pace-pass", "60ms", "--lease", str(LEASE_SECONDS))
"""Answers long enough to be cut in their midst."""

_MOST_SECONDS = 1200.0
"""No answer is begun later: on a slow machine there are fewer."""

_KILLING = 0.8
"""The share of the generations, the first ones, in which servers die: the last server answers all others."""


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    count = QUICK_GENERATIONS if request.quick else GENERATIONS
    wanted = QUICK_QUESTIONS if request.quick else QUESTIONS
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        nowhere = Address("127.0.0.1", 9)
        proxies = [await stack.enter_async_context(BreakableProxy(nowhere)) for _ in range(TOGETHER)]
        servers = Servers(stack, partial(serving, family, *SERVER), partial(_lead, proxies))
        access = Access(await servers.begin())
        choices = [DraftChoice(draft, threads=HALF_THE_CORES) for draft in DRAFTS]
        clients = [await stack.enter_async_context(client_for(access, choice, cache, no_bar)) for choice in choices]
        texts = choose_prompts(family.prompts, wanted // 2, request.seed)
        prompts = [prompt_tokens(clients[0], text) for text in texts]
        said = clients[0].description
        questions = await asyncio.to_thread(
            make_questions, family.target, prompts, said.end_tokens, said.context, request.seed, advance
        )
        lengths = [len(question.reference.answer) for question in questions]
        plan = [
            draw_generation(request.seed, index, lengths, may_kill=index < _KILLING * count) for index in range(count)
        ]
        torment = Torment(questions, servers)
        waiting = _in_time(plan)
        telling = asyncio.create_task(_tell(torment, count, advance))
        try:
            async with asyncio.TaskGroup() as workers:
                for index, proxy in enumerate(proxies):
                    workers.create_task(torment.work(clients[index % len(clients)], proxy, waiting))
        finally:
            telling.cancel()
        await asyncio.sleep(LEASE_SECONDS + 1)
        for client in clients:
            await client.connection.close()
        tortured, idle = await servers.end()
    return make_report(torment, count, tortured, idle)


def _lead(proxies: Sequence[BreakableProxy], address: Address) -> None:
    for proxy in proxies:
        proxy.target = address


def _in_time(plan: Sequence[Generation]) -> Iterator[Generation]:
    latest = time.monotonic() + _MOST_SECONDS
    return takewhile(lambda _: time.monotonic() < latest, plan)


async def _tell(torment: Torment, count: int, advance: Advance) -> None:
    while True:
        done = len(torment.outcomes)
        advance(f"{done} of {count} answers", REFERENCES + (1 - REFERENCES) * done / count)
        await asyncio.sleep(0.5)
