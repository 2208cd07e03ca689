"""`rolling`: a server that is replaced again and again while apps are answered: no request may fail, none may differ.

Each new server is ready before the link leads to it; then the old one is asked to end, and drains.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.assembly import client_for
from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import parse_destination
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, Apps, ask_together
from netem.experiments.service.endpoint import endpoint
from netem.experiments.service.questions import make_questions
from netem.links.breakable import BreakableProxy

RESTARTS = 8
QUICK_RESTARTS = 2
APPS = 4
LONGEST = 40  # tokens of an answer
DRAINS_SECONDS = (20, 0)
"""What running answers are given to end, in turn: more than they need, or nothing, so that they move in mid-answer."""

_TEXTS = 20
_QUICK_TEXTS = 5
_APART_SECONDS = 6.0
_REFERENCES = 0.1  # of the whole run, roughly
HEADINGS = ("drain", "restarts", "answers moved in their midst")


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    restarts = QUICK_RESTARTS if request.quick else RESTARTS
    texts = choose_prompts(family.prompts, _QUICK_TEXTS if request.quick else _TEXTS, request.seed)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))

        async def begin(index: int) -> Any:
            drain = DRAINS_SECONDS[index % len(DRAINS_SECONDS)]
            return await stack.enter_async_context(
                serving(family, "--pace-pass", "30ms", "--drain-seconds", str(drain))
            )

        server = await begin(0)
        address = parse_destination(await server.ready())
        async with client_for(Access(address), DraftChoice(threads=HALF_THE_CORES), cache, no_bar) as client:
            questions = await asyncio.to_thread(
                make_questions, family.target, texts, client, LONGEST, request.seed, advance, _REFERENCES
            )
        proxy = await stack.enter_async_context(BreakableProxy(address))
        _, asked_at = await stack.enter_async_context(endpoint(proxy.address, cache, APPS))
        apps = Apps(asked_at, questions)
        asking = asyncio.create_task(ask_together(apps, APPS, time.monotonic() + 3600, request.seed))
        moved = dict.fromkeys(DRAINS_SECONDS, 0)
        try:
            for index in range(restarts):
                advance(f"restart {index + 1} of {restarts}", _REFERENCES + (1 - _REFERENCES) * index / restarts)
                await asyncio.sleep(_APART_SECONDS)
                successor = await begin(index + 1)
                proxy.target = parse_destination(await successor.ready())
                await server.stop()
                moved[DRAINS_SECONDS[index % len(DRAINS_SECONDS)]] += server.summary()["failures"]
                server = successor
            await asyncio.sleep(_APART_SECONDS)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    return make_report(apps, restarts, moved)


def make_report(apps: Apps, restarts: int, moved: dict[int, int]) -> Report:
    verdicts = apps.verdicts
    counts = {drain: len(range(index, restarts, len(DRAINS_SECONDS))) for index, drain in enumerate(DRAINS_SECONDS)}
    return Report(
        title="Servers replaced under load",
        headings=HEADINGS,
        rows=[[f"{drain} s", str(counts[drain]), str(moved[drain])] for drain in DRAINS_SECONDS],
        remarks=(
            f"{APPS} apps ask `outrider serve` by OpenAI's client without a pause: answers of {LONGEST} tokens at "
            "most, half of them drawn with a seed.",
            f"{verdicts.total()} answers: {verdicts[IDENTICAL]} identical to transformers' own `generate`, "
            f"{verdicts[LEFT]} left in mid-answer by their app, {verdicts[DIFFERENT]} different, {verdicts[FAILED]} "
            "failed.",
            "'moved': streams that the old server ended because its time was up; their answers went on at its "
            "successor.",
        ),
        results={"verdicts": dict(verdicts), "troubles": apps.troubles, "restarts": restarts, "moved": moved},
        draw=lambda axes: _draw(axes, verdicts),
        faults=apps.troubles[:20],
    )


def _draw(axes: Any, verdicts: Any) -> None:
    kinds = (IDENTICAL, LEFT, DIFFERENT, FAILED)
    axes.bar(kinds, [verdicts[kind] for kind in kinds])
    axes.set_ylabel("answers")
    axes.spines[["top", "right"]].set_visible(False)
