"""`apps`: real apps against `outrider serve`, with a link, with one that is cut again and again, and without one.

Real processes and time. An app runs where it is installed (--apps); what is not is said. What each got is kept.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from client.demo.children import running
from client.demo.family import DemoModels, find_family
from common.address import parse_destination
from common.stated_costs import HALF_THE_CORES
from netem.experiments.apps.programs_run import APPS, Outcome, run_app
from netem.experiments.apps.stand_in import learnt_by_heart, with_tools
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.service.endpoint import endpoint
from netem.links.breakable import BreakableProxy

ONLINE, CUT, OFFLINE = "online", "cut", "offline"
LINKS = (ONLINE, CUT, OFFLINE)
QUICK_APPS = APPS[:1]
EDITED_FILE = "hello.py"

_PARALLEL = 4
_UP_S, _DOWN_S = 1.0, 2.5
"""How long a link that is cut works, and is silent; an answer takes seconds."""

_NOTICED_S = 6.0
"""In which the endpoint finds out that its server is gone."""

Outcomes = Mapping[str, Sequence[Outcome] | None]
"""What each app did; None where it is not installed."""


async def measure(request: Request, advance: Advance) -> Report:
    apps = QUICK_APPS if request.quick else APPS
    done: dict[str, dict[str, Sequence[Outcome] | None]] = {link: {} for link in LINKS}
    async with _behind_a_link(find_family(request.models)) as (proxy, url):
        for index, link in enumerate(LINKS):
            async with _as(link, proxy):
                for number, app in enumerate(apps):
                    advance(f"{link}, {app}", (index + number / len(apps)) / len(LINKS))
                    done[link][app] = await run_app(app, url, request.apps)
    return make_report(done)


@asynccontextmanager
async def _behind_a_link(family: DemoModels) -> AsyncIterator[tuple[BreakableProxy, str]]:
    """The link between a server of both targets and an endpoint, and the URL of the latter."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        target = await asyncio.to_thread(with_tools, family.target, folder)
        stand_in = await asyncio.to_thread(learnt_by_heart, family.target, folder, EDITED_FILE)
        models = ("--target", str(target), "--target", str(stand_in), "--draft", str(family.draft))
        options = ("--threads", str(HALF_THE_CORES), "--listen", "127.0.0.1:0", "--pace-pass", "30ms")
        server = await stack.enter_async_context(running("outriderd", "serve", *models, *options))
        address = parse_destination(await server.ready())
        proxy = await stack.enter_async_context(BreakableProxy(address))
        _, listens = await stack.enter_async_context(endpoint(proxy.address, folder / "cache", _PARALLEL, settings=()))
        yield proxy, f"http://{listens}/v1"


@asynccontextmanager
async def _as(link: str, proxy: BreakableProxy) -> AsyncIterator[None]:
    """The link works, is cut again and again, or is gone."""
    if link == OFFLINE:
        proxy.go_silent()
        proxy.reset()
        await asyncio.sleep(_NOTICED_S)
    cuts = asyncio.create_task(_cut(proxy)) if link == CUT else None
    try:
        yield
    finally:
        if cuts is not None:
            cuts.cancel()
            with suppress(asyncio.CancelledError):
                await cuts
        proxy.resume()


async def _cut(proxy: BreakableProxy) -> None:
    while True:
        await asyncio.sleep(_UP_S)
        proxy.go_silent()
        await asyncio.sleep(_DOWN_S)
        proxy.resume()
        proxy.reset()


def is_right(link: str, outcome: Outcome) -> bool:
    """Without a link the draft model writes text, data is refused, and an agent has to end without an edit."""
    if link != OFFLINE or outcome.kind == "TEXT":
        return outcome.word == "answered"
    return outcome.is_refused if outcome.kind == "DATA" else not (outcome.got or outcome.was_ended)


def make_report(done: Mapping[str, Outcomes]) -> Report:
    rows = [row for app in done[ONLINE] for row in _rows(app, {link: done[link].get(app) for link in done})]
    is_installed = any(each is not None for outcomes in done.values() for each in outcomes.values())
    faults = [] if is_installed else ["no app is installed: name their environments with --apps"]
    faults += [
        f"{app}, {link}: it did nothing"
        for link, outcomes in done.items()
        for app, each in outcomes.items()
        if each is not None and not each
    ]
    faults += [
        f"{outcome.app}, {outcome.name}, {link}: {outcome.error or 'it acted though the target was out of reach'}"
        for link, outcomes in done.items()
        for each in outcomes.values()
        for outcome in each or ()
        if not is_right(link, outcome)
    ]
    return Report(
        title="Real apps against `outrider serve`",
        headings=("app", "what it does", *done),
        rows=rows,
        remarks=(
            "The demo target with a template that shows tools; for agents one that has learnt its answers by heart. "
            f"Loopback, 30 ms a pass. 'cut': the link is silent for {_DOWN_S} s after each {_UP_S} s, and connections "
            "break.",
            "Offline the draft model answers what reads text; what reads calls or JSON is told 503, by the app's own "
            "means; an agent has to end by itself. results.json has what each got.",
        ),
        results={
            link: {app: None if each is None else [asdict(one) for one in each] for app, each in outcomes.items()}
            for link, outcomes in done.items()
        },
        faults=faults,
    )


def _rows(app: str, by_link: Mapping[str, Sequence[Outcome] | None]) -> list[list[str]]:
    names = dict.fromkeys(outcome.name for outcomes in by_link.values() for outcome in outcomes or ())
    if not names:
        return [[app, "not installed", *("" for _ in by_link)]]
    return [[app, name, *(_cell(name, outcomes or ()) for outcomes in by_link.values())] for name in names]


def _cell(name: str, outcomes: Sequence[Outcome]) -> str:
    return next((f"{each.word}, {each.seconds:.1f} s" for each in outcomes if each.name == name), "")
