"""The systems in real time: a server and links as processes, and clients in this process.

May know how processes are started and queried. It may not know tables or the virtual clock.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from client.answer import Answer
from client.assembly import Client, client_for
from client.demo.asking import ask_tokens
from client.demo.children import Child, running
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import parse_destination
from common.drafters.drafter import Drafter
from common.stated_costs import HALF_THE_CORES
from netem.experiments.quiet import no_bar
from netem.experiments.speed.systems import System
from server.options import Pace

_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class RealClient:
    """One client on a link of its own."""

    client: Client
    drafter: Drafter | None


@dataclass(frozen=True, slots=True)
class RealSystem:
    """One system's server, and its clients across their links."""

    system: System
    server: Child
    clients: Sequence[RealClient]
    level_seconds: float

    async def play(self, prompts: Sequence[Sequence[int]], new_tokens: int, clients: int | None = None) -> list[Answer]:
        """The answers of all clients, or of the first `clients`, each to every prompt one after the other, beginning
        with a different one."""

        async def one(index: int, client: RealClient) -> list[Answer]:
            return [await self._ask(client, prompt, new_tokens) for prompt in rotated(prompts, index)]

        played = await asyncio.gather(*(one(index, client) for index, client in enumerate(self.clients[:clients])))
        return [answer for answers in played for answer in answers]

    async def _ask(self, client: RealClient, prompt: Sequence[int], new_tokens: int) -> Answer:
        options = self.system.options(new_tokens, self.level_seconds)
        return await ask_tokens(client.client, prompt, options, client.drafter)

    async def warm_up(self, prompt: Sequence[int]) -> None:
        for client in self.clients:
            await self._ask(client, prompt, _WARM_UP_TOKENS)


def rotated(prompts: Sequence[Sequence[int]], index: int) -> list[Sequence[int]]:
    """All prompts, rotated by `index`, which may exceed their number."""
    first = index % len(prompts)
    return [*prompts[first:], *prompts[:first]]


@asynccontextmanager
async def start_system(
    target: Path,
    drafts: Sequence[Path],
    profile: str,
    system: System,
    clients: int,
    pace: Pace,
    level_seconds: float,
    options: Sequence[str] = (),
    backend: str = "tun",
) -> AsyncIterator[RealSystem]:
    """Runs one server and `clients` clients until the block ends. profile: the name of a link profile; backend: what
    emulates it. pace, level_seconds: the least that passes and levels take, 0 for their own time. options: of the
    server.

    Raises OutriderError where a process does not start or the link cannot be emulated.
    """
    models = ["--target", str(target)] + [argument for draft in drafts for argument in ("--draft", str(draft))]
    costs = [
        *("--pace-pass", f"{1000 * pace.per_pass:g}ms"),
        *("--pace-token", f"{1000 * pace.per_token:g}ms"),
        *("--pace-draft", f"{1000 * pace.per_level:g}ms"),
    ]
    # So that a prompt costs the same whatever was asked before, as on the virtual clock.
    own = ["--listen", "127.0.0.1:0", "--threads", str(HALF_THE_CORES), "--share-prefixes", "never"]
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-real-")))
        server = await stack.enter_async_context(running("outriderd", "serve", *models, *own, *costs, *options))
        address = await server.ready()
        links = [
            await stack.enter_async_context(
                running("outrider-lab", "proxy", profile, "--to", address, "--backend", backend)
            )
            for _ in range(clients)
        ]
        draft = system.draft
        choice = DraftChoice(
            draft=None if draft is None else draft.name,
            threads=HALF_THE_CORES,
            layers=0 if draft is None else draft.layers,
        )
        connected = []
        for link in links:
            access = Access(parse_destination(await link.ready()))
            client = await stack.enter_async_context(client_for(access, choice, cache, no_bar))
            connected.append(RealClient(client, None if draft is None else client.load_drafter()))
        yield RealSystem(system, server, connected, level_seconds)
