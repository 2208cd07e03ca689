"""One replica with many clients on the virtual clock, with recorded acceptance in place of the models.

The real engine, scheduler, sessions, conversations and drafting loops. May know how a virtual run is assembled. It may
not know fleets, tables, or which systems are compared.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.demo.asking import ignore_tokens
from client.drafting.policies import Policy
from client.errors import ServerRefusedError
from client.stats import per
from common.protocol.terms import Terms
from common.stated_costs import STATED, StatedCosts
from netem.experiments.capacity.gaps import GapRecorder, LinkGaps, together
from netem.experiments.capacity.replay import END, Replay, ReplayDrafter, ReplayDrafterFactory, ReplayTarget
from netem.experiments.speed.runs import drawn, whole
from netem.experiments.table_runs import ask, serving
from netem.links.profile import LinkProfile
from netem.virtual.clock import run_virtually
from netem.virtual.server import pace_of
from server.engine import Engine
from server.models.server_drafters import SERVER_TREE
from server.options import Pace
from server.sessions.admission import ServingLimits
from server.sessions.counters import Counters

PASS_TOKENS = 512
_CONTEXT = 4096
_K_V_TOKENS = 1_000_000
_GOLDEN = (math.sqrt(5) - 1) / 2
_APART = 7  # answers between those of two clients
SETTLE_S = 4.0
_MAX_SESSIONS = 4096  # enough that only the number of answers at a time is limited


@dataclass(frozen=True, slots=True)
class ReplicaSystem:
    """policy: of the clients. idle: the idle policy that they ask for. slower: how many times the stated costs a pass
    and a level take."""

    name: str
    policy: Policy
    idle: str
    server_drafting: bool
    slower: float = 1.0

    @property
    def costs(self) -> StatedCosts:
        return STATED.times(self.slower)


@dataclass(frozen=True)
class ReplicaLoad:
    """Clients that are always being answered: each asks again as soon as its answer has ended, over the next of
    `links`. They begin within `begin_s`, in the middle of answers, of which what is behind them is read as prompts;
    `SETTLE_S` later, when the passes have caught up with these, commits are counted for `seconds`."""

    clients: int
    links: Sequence[LinkProfile]
    seconds: float
    begin_s: float = 0.6


@dataclass(frozen=True)
class ReplicaRun:
    """By the name of the link, and the server's counters; `refused` are requests that the server had no room for."""

    links: Mapping[str, LinkGaps]
    counters: Counters
    refused: int
    seconds: float

    @property
    def whole(self) -> LinkGaps:
        """Over all links."""
        return together(list(self.links.values()))


def run_replica(replay: Replay, system: ReplicaSystem, load: ReplicaLoad) -> ReplicaRun:
    """Deterministic: links are drawn by client and question, and answers are the recorded ones in a cycle."""
    return run_virtually(_Clients(replay, system, load).run())


class _Clients:
    def __init__(self, replay: Replay, system: ReplicaSystem, load: ReplicaLoad):
        self._replay = replay
        self._system = system
        self._load = load
        counted_s = load.begin_s + SETTLE_S
        self._ends_s = counted_s + load.seconds
        self._gaps = GapRecorder(counted_s)
        self._refused = 0

    async def run(self) -> ReplicaRun:
        load = self._load
        async with serving(*replay_server(self._replay, self._system)) as engine:
            starts = [load.begin_s * number / load.clients for number in range(load.clients)]
            clients = [asyncio.create_task(self._client(engine, *each)) for each in enumerate(starts)]
            await asyncio.sleep(self._ends_s)
            links = self._gaps.seen([link.name for link in load.links], self._ends_s)
            for client in clients:
                client.cancel()
            for ended in await asyncio.gather(*clients, return_exceptions=True):
                if isinstance(ended, Exception):  # a client that fails makes room for the others
                    raise ended
            counters = engine.counters
        return ReplicaRun(links, counters, self._refused, load.seconds)

    async def _client(self, engine: Engine, number: int, start_s: float) -> None:
        await asyncio.sleep(start_s)
        question = 0
        begun = number * _GOLDEN % 1  # evenly spread, and in no order, so that no long prompts come together
        while True:
            link = self._load.links[(number + question) % len(self._load.links)]
            try:
                await self._question(engine, number, drawn(link, number, question), question, begun)
                question, begun = question + 1, 0.0
            except ServerRefusedError as refusal:
                self._refused += 1
                await asyncio.sleep(refusal.retry_after)

    async def _question(self, engine: Engine, number: int, link: LinkProfile, question: int, begun: float) -> None:
        clock = asyncio.get_running_loop().time

        def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                self._gaps.committed(number, link.name, len(committed), clock())

        await ask_replayed(engine, self._replay, self._system, link, number * _APART + question, begun, watch)
        self._gaps.answered(number)


async def ask_replayed(
    engine: Engine,
    replay: Replay,
    system: ReplicaSystem,
    link: LinkProfile,
    number: int,
    begun: float = 0.0,
    watch: TokenListener = ignore_tokens,
) -> Answer:
    """Recorded answer `number`, of which the share `begun` is part of the prompt. Raises OutriderError where it breaks
    off or its drafter fails."""
    prompt = replay.prompt(number, int(begun * (replay.tokens(number) - 1)))
    drafter = ReplayDrafter(replay) if system.policy.drafts else None
    session_id = f"{link.seed:016x}{number:016x}"
    return whole(await ask(engine, link, session_id, prompt, replay_options(replay, system, number), drafter, watch))


def replay_options(replay: Replay, system: ReplicaSystem, number: int) -> AnswerOptions:
    """Of recorded answer `number`."""
    most_tokens, level_s = replay.tokens(number) + 1, system.costs.draft_seconds
    return AnswerOptions(system.policy, most_tokens, idle=system.idle, pace=level_s)


def answer_in_turn(
    replay: Replay,
    system: ReplicaSystem,
    link: LinkProfile,
    clients: int,
    answers: int,
    replicas: int = 1,
    apart_s: float = 0.0,
    draw: int = 0,
) -> float:
    """As `tokens_in_turn`, of clients that are divided evenly among the replicas. draw: another one, other draws of the
    link."""

    async def main() -> float:
        async with AsyncExitStack() as stack:
            engines = [
                await stack.enter_async_context(serving(*replay_server(replay, system))) for _ in range(replicas)
            ]

            def ask_one(client: int, turn: int, answer: int) -> Awaitable[Answer]:
                profile = drawn(link, client, turn, draw)
                return ask_replayed(engines[client % replicas], replay, system, profile, answer)

            return await tokens_in_turn(ask_one, clients, answers, apart_s)

    return run_virtually(main())


async def tokens_in_turn(
    ask_one: Callable[[int, int, int], Awaitable[Answer]], clients: int, answers: int, apart_s: float = 0.0
) -> float:
    """Tokens per second of a client, where each of `clients` asks every `clients`-th of so many recorded answers, one
    after the other; the first times that they ask are `apart_s` seconds apart. ask_one: a client's number, how many it
    has asked before, and the answer's number."""

    async def attend(client: int) -> list[Answer]:
        await asyncio.sleep(client * apart_s)
        return [await ask_one(client, *turn) for turn in enumerate(range(client, answers, clients))]

    attended = await asyncio.gather(*map(attend, range(clients)))
    stats = [answer.stats for of_client in attended for answer in of_client]
    return per(sum(each.tokens for each in stats), sum(each.seconds for each in stats))


def replay_terms(replay: Replay) -> Terms:
    return Terms("replay", replay.vocabulary, _CONTEXT, frozenset({END}), lambda tokens: "", server_drafts=True)


def replay_server(
    replay: Replay, system: ReplicaSystem
) -> tuple[ReplayTarget, Terms, ServingLimits, Pace, int, ReplayDrafterFactory | None]:
    """What a server is made of: target, terms, limits, costs, K/V tokens, its drafters."""
    terms = replay_terms(replay)
    factory = ReplayDrafterFactory(replay, SERVER_TREE) if system.server_drafting else None
    limits = ServingLimits(_MAX_SESSIONS, PASS_TOKENS)
    return ReplayTarget(replay), terms, limits, pace_of(system.costs), _K_V_TOKENS, factory
