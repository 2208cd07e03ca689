"""The systems that are compared, each with its own server behind its own link and its own drafter, so that what is
measured of one, its overruns included, is that system's alone.

Starts what a comparison needs and warms it up; it may not know what is compared or shown.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.chosen_bundles import Download
from client.demo.asking import ask, ignore_tokens
from client.demo.children import Child, running
from client.demo.family import DemoModels
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD, LONG_LOCKSTEP, STREAM, Policy
from client.link.stream import Access
from common.address import parse_destination
from common.drafters.drafter import Drafter
from common.stated_costs import HALF_THE_CORES, StatedCosts

SYSTEMS: Mapping[str, Policy] = {
    "cloud": CLOUD,
    "lockstep": LONG_LOCKSTEP,
    "server-side": replace(CLOUD, idle="colocated"),
    "overlapped": replace(CLOUD, idle="auto"),
    "outrider": STREAM,
}
"""The demo's systems by name, as policies of one client; the first is what the others are compared with. `server-side`
is speculation beside the target, in turn with its passes, and `overlapped` during them too; neither drafts on the
laptop."""

_WARM_UP_PROMPT = "Hello."
_WARM_UP_TOKENS = 4
_STEPS = 3  # reported for each system: its server, its draft, its first answer

Advance = Callable[[str, float], None]
"""Is called with what is being done, and the share of the whole that is done, 0 to 1."""


def systems(max_new_tokens: int, costs: StatedCosts) -> dict[str, AnswerOptions]:
    """What each of the demo's systems is asked for, at the stated cost of a drafted level."""
    return {name: AnswerOptions(policy, max_new_tokens, pace=costs.draft_seconds) for name, policy in SYSTEMS.items()}


@dataclass(frozen=True, slots=True)
class SystemUnderTest:
    options: AnswerOptions
    server: Child
    client: Client
    drafter: Drafter | None

    async def ask(self, prompt: str, on_tokens: TokenListener = ignore_tokens) -> Answer:
        return await ask(self.client, prompt, self.options, self.drafter, on_tokens)


def serving(family: DemoModels, *arguments: str) -> AbstractAsyncContextManager[Child]:
    """The family's server on a free port."""
    models = ("--target", str(family.target), "--draft", str(family.draft), "--threads", str(HALF_THE_CORES))
    return running("outriderd", "serve", *models, "--listen", "127.0.0.1:0", *arguments)


@asynccontextmanager
async def systems_under_test(
    family: DemoModels,
    profile: str,
    costs: StatedCosts,
    systems: Mapping[str, AnswerOptions],
    download: Download,
    advance: Advance,
) -> AsyncIterator[dict[str, SystemUnderTest]]:
    """Starts every system behind the emulated link, ready to answer at its options and its server's stated costs."""
    begun = 0

    def begin(step: str) -> None:
        nonlocal begun
        advance(step, begun / (_STEPS * len(systems)))
        begun += 1

    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-demo-")))
        # So that a prompt costs the same whatever was asked before, as on the virtual clock.
        arguments = (*costs.server_arguments, "--share-prefixes", "never")
        # Starting and ending are slow: all begin to before the first is awaited.
        servers = [await stack.enter_async_context(serving(family, *arguments)) for _ in systems]
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
            opened[name] = SystemUnderTest(
                options, server, client, client.load_drafter() if options.policy.drafts else None
            )
        for name, system in opened.items():
            begin(f"first answer of {name}")
            # One short unmeasured answer, so that nobody pays for a server's first pass.
            await replace(system, options=replace(system.options, max_new_tokens=_WARM_UP_TOKENS)).ask(_WARM_UP_PROMPT)
        yield opened
