"""`replicas`: three replicas that share a store, many clients, and a replica killed every 20 s: no answer fails, none
differs, and only the clients of a killed replica move.

First nothing is killed, and the load of the replicas is compared. Then replicas are killed in turn, each is started
anew, and once the store is killed and started anew, too.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answering import AnswerOptions
from client.assembly import client_for
from client.demo.asking import ask_tokens, ignore_tokens, prompt_tokens
from client.demo.children import Child
from client.demo.family import DemoModels, choose_prompts, find_family
from client.demo.systems_under_test import serving
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.link.stream import Access
from common.address import Address, parse_destination
from common.protocol.errors import OutriderError
from common.stated_costs import SERVER_ARGUMENTS
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.experiments.service.local_store import LocalStore

REPLICAS = 3
CLIENTS = 24
MAX_NEW_TOKENS = 32  # of an answer
MOST_UNEVEN = 0.2
"""The load of a replica may differ from the mean by so much of it, while none is killed."""

KILL_INTERVAL_S = 20.0
_CALM_S, _QUICK_CALM_S = 120.0, 40.0
_KILLS, _QUICK_KILLS = 15, 2
_STORE_IS_GONE_S = 5.0
_SAMPLE_S = 0.25
ARRIVAL_S = 0.5
"""From one client's first arrival to the next one's: of clients that come at the same moment none sees another's
session."""

_PROMPTS = 12
_OPTIONS = AnswerOptions(STREAM, MAX_NEW_TOKENS, idle="eager")
_PATIENT = OfflineOptions(wait_s=120.0)
HEADINGS = ("phase", "seconds", "answers", "failed", "different", "moved with their replica", "moved without cause")

CALM, KILLING = "calm", "a replica killed every 20 s"


@dataclass
class Phase:
    """`held` are samples of the sessions of each replica in turn."""

    answers: int = 0
    different: int = 0
    failures: list[str] = field(default_factory=list)
    moved: int = 0
    moved_without_cause: int = 0
    held: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0


class Clients:
    """Each asks on a connection and a session of its own, and then comes back as a new client."""

    def __init__(self, given: Sequence[Address], truths: dict[tuple[int, ...], tuple[int, ...]], cache: Path):
        self.phase = Phase()
        self.held = Counter[Address]()
        self.killed_at: dict[Address, float] = {}
        self._access = Access(given[0], others=tuple(given[1:]), follow_replicas=True)
        self._truths = truths
        self._cache = cache

    async def come_and_go(self, index: int) -> None:
        await asyncio.sleep(index * ARRIVAL_S)
        prompts = list(self._truths)
        while True:
            prompt = prompts[index % len(prompts)]
            index += 1
            try:
                await self._ask(prompt)
            except OutriderError as error:
                self.phase.failures.append(str(error))

    async def _ask(self, prompt: tuple[int, ...]) -> None:
        async with client_for(self._access, DraftChoice("lookup"), self._cache, no_bar) as client:
            began, chosen = time.monotonic(), client.access.address
            self.held[chosen] += 1
            try:
                async with client.converse(STREAM, client.load_drafter(), 0.0, _PATIENT) as conversation:
                    answer = await conversation.answer(prompt, _OPTIONS.settings(), ignore_tokens)
            finally:
                self.held[chosen] -= 1
        phase = self.phase
        phase.answers += 1
        if answer.failure or answer.note or answer.provisional:
            phase.failures.append(answer.failure or answer.note or "the answer ended without the server")
        elif answer.tokens != self._truths[prompt]:
            phase.different += 1
        if answer.stats.reconnects:
            had_cause = self.killed_at.get(chosen, -1.0) >= began
            phase.moved += had_cause
            phase.moved_without_cause += not had_cause


async def measure(request: Request, advance: Advance) -> Report:
    family = find_family(request.models)
    calm_s, kills = (_QUICK_CALM_S, _QUICK_KILLS) if request.quick else (_CALM_S, _KILLS)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        store = LocalStore(folder)
        stack.callback(store.end)

        async def start() -> Child:
            return await stack.enter_async_context(_replica(family, store))

        advance("start of the replicas", 0.0)
        servers = [await start() for _ in range(REPLICAS)]
        up = {parse_destination(await server.ready()): server for server in servers}
        truths = await find_truths(Access(next(iter(up))), family, request.seed, folder)
        clients = Clients(list(up), truths, folder)
        coming = [asyncio.create_task(clients.come_and_go(index)) for index in range(CLIENTS)]
        try:
            advance("arrival of the clients", 0.1)
            await asyncio.sleep(CLIENTS * ARRIVAL_S)
            advance(CALM, 0.15)
            calm = await run_phase(clients, asyncio.sleep(calm_s), lambda: list(up))
            advance(KILLING, 0.3)
            killing = await run_phase(clients, _kill(clients, up, start, store, kills), lambda: [])
        finally:
            for each in coming:
                each.cancel()
            await asyncio.gather(*coming, return_exceptions=True)
    return make_report({CALM: calm, KILLING: killing}, kills)


def _replica(family: DemoModels, store: LocalStore) -> Any:
    return serving(family, *SERVER_ARGUMENTS, "--fleet-store", store.url)


async def find_truths(
    access: Access, family: DemoModels, seed: int, cache: Path
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """What one replica answers while nobody else asks, by prompt."""
    answers = {}
    async with client_for(access, DraftChoice("lookup"), cache, no_bar) as client:
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
        await asyncio.wait({ending}, timeout=_SAMPLE_S)
    ending.result()
    clients.phase.seconds = time.monotonic() - began
    return clients.phase


async def _kill(
    clients: Clients, up: dict[Address, Child], start: Callable[[], Any], store: LocalStore, kills: int
) -> None:
    for index in range(kills):
        began = time.monotonic()
        address = next(iter(up))  # the oldest
        clients.killed_at[address] = began
        up.pop(address).kill()
        if index == kills // 2:
            store.end()
            await asyncio.sleep(_STORE_IS_GONE_S)
            await asyncio.to_thread(store.begin)
        server = await start()
        up[parse_destination(await server.ready())] = server
        await asyncio.sleep(max(0.0, began + KILL_INTERVAL_S - time.monotonic()))


def uneven(held: Sequence[Sequence[int]]) -> float:
    """By how much the mean number of sessions of a replica differs at most from that of all, as a part of it."""
    means: list[float] = [sum(each) / len(held) for each in zip(*held, strict=True)]
    mean = sum(means) / len(means)
    return max(abs(each - mean) for each in means) / mean


def make_report(phases: dict[str, Phase], kills: int) -> Report:
    remark = (
        f"{kills} replicas were killed without notice, each once the one before had been replaced and 20 s were "
        f"over. After half of them the store was gone for {_STORE_IS_GONE_S:g} s and came back empty."
    )
    return report_of("Replicas that are killed under load", phases, (remark,), {"kills": kills})


def report_of(title: str, phases: Mapping[str, Phase], remarks: Sequence[str], results: Mapping[str, Any]) -> Report:
    """`remarks`: what was done to the replicas. One of the phases is CALM."""
    rows, faults = [], []
    for name, phase in phases.items():
        counts = (phase.answers, len(phase.failures), phase.different, phase.moved, phase.moved_without_cause)
        rows.append([name, f"{phase.seconds:.0f}", *map(str, counts)])
        faults += [f"{name}: {failure}" for failure in phase.failures[:10]]
        if phase.different or phase.moved_without_cause:
            faults.append(f"{name}: {phase.different} different, {phase.moved_without_cause} moved without cause")
    spread = uneven(phases[CALM].held)
    if spread > MOST_UNEVEN:
        faults.append(f"the load of a replica differs by {spread:.0%} from the mean; {MOST_UNEVEN:.0%} may be")
    return Report(
        title=title,
        headings=HEADINGS,
        rows=rows,
        remarks=(
            f"{CLIENTS} clients on {REPLICAS} replicas: each connects, asks once for at most {MAX_NEW_TOKENS} tokens "
            "and comes back as a new client, which takes the less loaded of two replicas. They first come "
            f"{ARRIVAL_S:g} s apart.",
            f"Mean sessions of a replica in the calm phase differ from the mean of all by at most {spread:.1%}.",
            *remarks,
            "'different': from what one replica answers while nobody else asks. 'moved without cause': answers that "
            "reconnected although their replica was up all the time.",
        ),
        results={
            **results,
            "uneven": spread,
            "phases": {
                name: {
                    "seconds": phase.seconds,
                    "answers": phase.answers,
                    "failures": phase.failures,
                    "different": phase.different,
                    "moved": phase.moved,
                    "moved_without_cause": phase.moved_without_cause,
                }
                for name, phase in phases.items()
            },
        },
        draw=lambda axes: _draw(axes, phases[CALM].held),
        faults=faults,
    )


def _draw(axes: Any, held: Sequence[Sequence[int]]) -> None:
    for number, sessions in enumerate(zip(*held, strict=True), 1):
        axes.plot([index * _SAMPLE_S for index in range(len(held))], sessions, label=f"replica {number}")
    axes.set_xlabel("seconds")
    axes.set_ylabel("sessions")
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
