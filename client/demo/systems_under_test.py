"""Lanes: each system's own server behind its own link, with its own drafter, so that what is measured on one lane,
its overruns included, is that system's alone.

Starts what a comparison needs and warms it up; it may not know what is compared or shown.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from client.answering import AnswerOptions
from client.assembly import Client, Download, client_for
from client.conversation import Answer, Watch
from client.demo.asking import ask, unwatched
from client.demo.children import Child, running
from client.demo.family import Family
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import parse_destination
from common.drafters.drafter import Drafter
from common.stated_costs import HALF_THE_CORES, SERVER_ARGUMENTS

_WARM_UP_PROMPT = "Hello."
_WARM_UP_TOKENS = 4
_STEPS = 3  # of which each lane is told: its server, its draft, its first answer

Advance = Callable[[str, float], None]
"""Told what is being done and which share of the whole, 0 to 1, is behind it."""


@dataclass(frozen=True, slots=True)
class Lane:
    options: AnswerOptions
    server: Child
    client: Client
    drafter: Drafter | None

    async def ask(self, prompt: str, watch: Watch = unwatched) -> Answer:
        return await ask(self.client, prompt, self.options, self.drafter, watch)


def serving(family: Family, *arguments: str) -> AbstractAsyncContextManager[Child]:
    """The family's server on a free port."""
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", str(HALF_THE_CORES))
    return running("outriderd", "serve", *models, "--listen", "127.0.0.1:0", *arguments)


@asynccontextmanager
async def lanes(
    family: Family, profile: str, systems: Mapping[str, AnswerOptions], download: Download, advance: Advance
) -> AsyncIterator[dict[str, Lane]]:
    """A lane for each system across the link, ready to answer at its stated costs."""
    begun = 0

    def begin(step: str) -> None:
        nonlocal begun
        advance(step, begun / (_STEPS * len(systems)))
        begun += 1

    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-demo-")))
        # Starting and ending are slow: all begin to before the first is awaited.
        servers = [await stack.enter_async_context(serving(family, *SERVER_ARGUMENTS)) for _ in systems]
        for server in servers:
            stack.callback(server.ask_to_end)
        addresses = []
        for name, server in zip(systems, servers, strict=True):
            begin(f"server of {name}")
            addresses.append(await server.ready())
        proxies = [running("outrider-lab", "proxy", profile, "--to", address) for address in addresses]
        links = [await stack.enter_async_context(proxy) for proxy in proxies]
        opened = {}
        for server, link, (name, options) in zip(servers, links, systems.items(), strict=True):
            begin(f"draft of {name}")
            access = Access(parse_destination(await link.ready()))
            choice = DraftChoice(threads=HALF_THE_CORES)
            client = await stack.enter_async_context(client_for(access, choice, cache, download))
            opened[name] = Lane(options, server, client, client.load_drafter() if options.policy.drafts else None)
        for name, lane in opened.items():
            begin(f"first answer of {name}")
            # One short unmeasured answer, so that nobody pays for a server's first pass.
            await replace(lane, options=replace(lane.options, max_new_tokens=_WARM_UP_TOKENS)).ask(_WARM_UP_PROMPT)
        yield opened
