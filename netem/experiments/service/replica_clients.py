"""Clients of several replicas that ask without end, and what is recorded of them: answers, and each time one of them
lost its stream, with where it went and why.

It may not know who starts or kills replicas; whoever does says which were away.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from client.answering import AnswerOptions
from client.assembly import client_for
from client.demo.asking import ask_tokens, ignore_tokens, prompt_tokens
from client.demo.family import DemoModels, choose_prompts
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.stream import Access
from common.address import Address
from common.protocol.errors import OutriderError
from netem.experiments.quiet import no_bar

CLIENTS = 24
MAX_NEW_TOKENS = 32  # of an answer
ARRIVAL_S = 0.5
"""From one client's first arrival to the next one's: of clients that come at the same moment none sees another's
session."""

SAMPLE_S = 0.25
"""From one look at the clients, or at the fleet, to the next."""

MOST_WAIT_S = 60.0
"""The longest that a client may wait for an answer, ten times what one takes."""

_PROMPTS = 12
_OPTIONS = AnswerOptions(STREAM, MAX_NEW_TOKENS, idle="eager")
_PATIENT = OfflineOptions(wait_s=120.0)
_DRAFT = DraftChoice("lookup")


@dataclass(frozen=True, slots=True)
class Reconnect:
    """An answer lost its stream to the replica at `left` and got one to that at `reached`. `cause`: as its client saw
    it. `had_cause`: the replica was away at some time since the client had chosen it."""

    left: str
    reached: str
    cause: str
    had_cause: bool

    @property
    def came_back(self) -> bool:
        return self.left == self.reached


@dataclass
class Phase:
    """`held` are samples of the sessions of each replica in turn. `longest_wait_s`: for an answer, also for one that a
    client still waited for at the end."""

    answers: int = 0
    different: int = 0
    failures: list[str] = field(default_factory=list)
    reconnects: list[Reconnect] = field(default_factory=list)
    held: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    longest_wait_s: float = 0.0

    @property
    def moved(self) -> int:
        """Reconnects of answers whose replica was away."""
        return sum(each.had_cause for each in self.reconnects)

    @property
    def without_cause(self) -> list[Reconnect]:
        return [each for each in self.reconnects if not each.had_cause]


class Clients:
    """Each asks on a connection and a session of its own, and then comes back as a new client. `away_at`: when each
    replica was last away. `asked_at`: when each client asked what it waits for."""

    def __init__(self, given: Sequence[Address], truths: dict[tuple[int, ...], tuple[int, ...]], cache: Path):
        self.phase = Phase()
        self.held = Counter[Address]()
        self.away_at: dict[Address, float] = {}
        self.asked_at: dict[int, float] = {}
        self._access = Access(given[0], others=tuple(given[1:]), follow_replicas=True)
        self._truths = truths
        self._cache = cache

    async def come_and_go(self, index: int) -> None:
        await asyncio.sleep(index * ARRIVAL_S)
        prompts = list(self._truths)
        for turn in itertools.count(index):
            self.asked_at[index] = time.monotonic()
            try:
                await self._ask(prompts[turn % len(prompts)])
            except OutriderError as error:
                self.phase.failures.append(str(error))
            except Exception as error:  # or the client would be gone, and nobody would know
                self.phase.failures.append(f"{type(error).__name__}: {error}")
                return
            finally:
                self.note_wait(index)

    def note_wait(self, index: int) -> None:
        """A client waits, or has waited until now."""
        waited_s = time.monotonic() - self.asked_at[index]
        self.phase.longest_wait_s = max(self.phase.longest_wait_s, waited_s)

    async def _ask(self, prompt: tuple[int, ...]) -> None:
        began, opened, causes = time.monotonic(), list[Address](), list[str]()
        async with client_for(self._access, _DRAFT, self._cache, no_bar) as client:
            chosen = client.access.address
            self.held[chosen] += 1
            try:
                async with (
                    client.share_connection(opened.append) as shared,
                    client.converse(STREAM, client.load_drafter(), 0.0, _PATIENT, shared) as conversation,
                ):

                    def note(state: LinkState) -> None:
                        if state is LinkState.OFFLINE:
                            causes.append(conversation.lost_by)

                    answer = await conversation.answer(prompt, _OPTIONS.settings(), ignore_tokens, note)
            finally:
                self.held[chosen] -= 1
        phase = self.phase
        phase.answers += 1
        if answer.failure or answer.note or answer.provisional:
            phase.failures.append(answer.failure or answer.note or "the answer ended without the server")
        elif answer.tokens != self._truths[prompt]:
            phase.different += 1
        phase.reconnects += [
            Reconnect(str(left), str(reached), cause, self.away_at.get(left, -1.0) >= began)
            for cause, (left, reached) in zip(causes, pairwise(opened), strict=False)
        ]


async def find_truths(
    access: Access, family: DemoModels, seed: int, cache: Path
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """What one replica answers while nobody else asks, by prompt."""
    answers = {}
    async with client_for(access, _DRAFT, cache, no_bar) as client:
        for text in choose_prompts(family.prompts, _PROMPTS, seed):
            prompt = prompt_tokens(client, text)
            answers[tuple(prompt)] = (await ask_tokens(client, prompt, _OPTIONS, client.load_drafter())).tokens
    return answers


async def run_phase(clients: Clients, until: Any, sampled: Callable[[], Sequence[Address]]) -> Phase:
    clients.phase, began = Phase(), time.monotonic()
    ending = asyncio.ensure_future(until)
    while not ending.done():
        if addresses := sampled():
            clients.phase.held.append([clients.held[address] for address in addresses])
        await asyncio.wait({ending}, timeout=SAMPLE_S)
    ending.result()
    for index in clients.asked_at:
        clients.note_wait(index)
    clients.phase.seconds = time.monotonic() - began
    return clients.phase


async def calm(clients: Clients, seconds: float, answers: int) -> None:
    """Until that time is over and so many answers were given; at most three times as long."""
    began = time.monotonic()
    while (now := time.monotonic()) < began + 3 * seconds:
        if now >= began + seconds and clients.phase.answers >= answers:
            return
        await asyncio.sleep(SAMPLE_S)
