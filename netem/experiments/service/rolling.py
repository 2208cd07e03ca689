"""`rolling`: a server that is replaced repeatedly while apps are answered: no request may fail, no answer may differ.

Each new server is ready before the link leads to it; then the old one is told to end, and drains.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import serving
from common.address import parse_destination
from common.protocol.messages import FailureCode
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.app_requests import make_app_requests
from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, PATIENCE_S, Apps, asking
from netem.experiments.service.endpoint import endpoint
from netem.links.breakable import BreakableProxy

RESTARTS = 8
QUICK_RESTARTS = 2
APPS = 4
MAX_NEW_TOKENS = 40  # tokens of an answer
DRAINS_SECONDS = (20, 0)
"""The time that running answers get to end, in turn: more than they need, or none, so that they move in mid-answer."""

_TEXTS = 20
_QUICK_TEXTS = 5
_INTERVAL_S = 6.0
_REFERENCES_SHARE = 0.1  # of the whole run, roughly
HEADINGS = ("drain", "restarts", "answers moved in their midst")


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    restarts = QUICK_RESTARTS if request.quick else RESTARTS
    texts = choose_prompts(family.prompts, _QUICK_TEXTS if request.quick else _TEXTS, request.seed)
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))

        async def start(index: int) -> Any:
            drain = DRAINS_SECONDS[index % len(DRAINS_SECONDS)]
            return await stack.enter_async_context(
                serving(family, "--pace-pass", "30ms", "--drain-seconds", str(drain))
            )

        server = await start(0)
        address = parse_destination(await server.ready())
        requests = await make_app_requests(
            family.target, address, cache, texts, MAX_NEW_TOKENS, request.seed, advance, _REFERENCES_SHARE
        )
        proxy = await stack.enter_async_context(BreakableProxy(address))
        _, endpoint_address = await stack.enter_async_context(endpoint(proxy.address, cache, APPS))
        apps = Apps(endpoint_address, requests)
        moved = dict.fromkeys(DRAINS_SECONDS, 0)
        async with asking(apps, APPS, request.seed):
            for index in range(restarts):
                advance(
                    f"restart {index + 1} of {restarts}", _REFERENCES_SHARE + (1 - _REFERENCES_SHARE) * index / restarts
                )
                await asyncio.sleep(_INTERVAL_S)
                successor = await start(index + 1)
                proxy.target = parse_destination(await successor.ready())
                await server.stop()
                moved[DRAINS_SECONDS[index % len(DRAINS_SECONDS)]] += ended_by_draining(server.summary())
                server = successor
            await asyncio.sleep(_INTERVAL_S)
    return make_report(apps, restarts, moved)


def ended_by_draining(counters: Mapping[str, Any]) -> int:
    """Streams that a server ended because its time was up; those that it refused meanwhile had no answer to move."""
    return int(counters["failed"].get(FailureCode.DRAINING, 0))


def make_report(apps: Apps, restarts: int, moved: dict[int, int]) -> Report:
    verdicts = apps.verdicts
    answered = verdicts.total() - verdicts[FAILED]
    counts = {drain: len(range(index, restarts, len(DRAINS_SECONDS))) for index, drain in enumerate(DRAINS_SECONDS)}
    return Report(
        title="Servers replaced under load",
        headings=HEADINGS,
        rows=[[f"{drain} s", str(counts[drain]), str(moved[drain])] for drain in DRAINS_SECONDS],
        remarks=(
            f"{APPS} apps ask `outrider serve` by OpenAI's client without a pause: answers of {MAX_NEW_TOKENS} "
            f"tokens at "
            "most, half of them drawn with a seed.",
            f"{verdicts.total()} answers: {verdicts[IDENTICAL]} identical to transformers' own `generate`, "
            f"{verdicts[LEFT]} left in mid-answer by their app, {verdicts[DIFFERENT]} different, {verdicts[FAILED]} "
            f"failed. {apps.repeats} A request that is unanswered {PATIENCE_S:g} s after the last one was sent has "
            "failed.",
            "'moved': streams that the old server ended because its time was up; their answers went on at its "
            "successor.",
        ),
        results={
            "verdicts": dict(verdicts),
            "repeated": apps.repeated,
            "troubles": apps.troubles,
            "restarts": restarts,
            "moved": moved,
        },
        faults=[
            *apps.troubles[:20],
            *([] if answered >= APPS * restarts else [f"{answered} answers for {APPS} apps and {restarts} restarts"]),
            *([] if moved[0] else ["no answer moved in its midst, though servers ended without time for them"]),
        ],
    )
