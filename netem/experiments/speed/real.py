"""The same systems in real time: a server, links over tun and clients as processes and sockets, at stated costs.

May know how processes are started and asked. It may not know tables or the virtual clock.
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

_WARM_UP = 4  # tokens


@dataclass(frozen=True, slots=True)
class Seat:
    """One client on a link of its own."""

    client: Client
    drafter: Drafter | None


@dataclass(frozen=True, slots=True)
class Stage:
    """One system's server, and its clients across their links."""

    system: System
    server: Child
    seats: Sequence[Seat]
    level_seconds: float

    async def play(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[Answer]:
        """Every client asks every prompt, one after the other, each beginning with another."""

        async def one(place: int, seat: Seat) -> list[Answer]:
            return [await self._ask(seat, prompt, new_tokens) for prompt in turned(prompts, place)]

        played = await asyncio.gather(*(one(place, seat) for place, seat in enumerate(self.seats)))
        return [answer for answers in played for answer in answers]

    async def _ask(self, seat: Seat, prompt: Sequence[int], new_tokens: int) -> Answer:
        options = self.system.options(new_tokens, self.level_seconds)
        return await ask_tokens(seat.client, prompt, options, seat.drafter)

    async def warm_up(self, prompt: Sequence[int]) -> None:
        for seat in self.seats:
            await self._ask(seat, prompt, _WARM_UP)


def turned(prompts: Sequence[Sequence[int]], place: int) -> list[Sequence[int]]:
    """All of them, beginning with another at each place."""
    return [*prompts[place:], *prompts[:place]]


@asynccontextmanager
async def stage(
    target: Path, drafts: Sequence[Path], profile: str, system: System, clients: int, pace: Pace, level_seconds: float
) -> AsyncIterator[Stage]:
    """Raises OutriderError where a process does not start or the link cannot be imposed."""
    models = ["--target", str(target)] + [argument for draft in drafts for argument in ("--draft", str(draft))]
    costs = [
        *("--pace-pass", f"{1000 * pace.per_pass:g}ms"),
        *("--pace-token", f"{1000 * pace.per_token:g}ms"),
        *("--pace-draft", f"{1000 * pace.per_level:g}ms"),
    ]
    own = ["--listen", "127.0.0.1:0", "--threads", str(HALF_THE_CORES)]
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-real-")))
        server = await stack.enter_async_context(running("outriderd", "serve", *models, *own, *costs))
        address = await server.ready()
        links = [
            await stack.enter_async_context(
                running("outrider-lab", "proxy", profile, "--to", address, "--backend", "tun")
            )
            for _ in range(clients)
        ]
        draft = system.draft
        choice = DraftChoice(
            draft=None if draft is None else draft.name,
            threads=HALF_THE_CORES,
            layers=0 if draft is None else draft.layers,
        )
        seats = []
        for link in links:
            access = Access(parse_destination(await link.ready()))
            client = await stack.enter_async_context(client_for(access, choice, cache, no_bar))
            seats.append(Seat(client, None if draft is None else client.load_drafter()))
        yield Stage(system, server, seats, level_seconds)
