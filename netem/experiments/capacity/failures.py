"""`capacity-failures`: a fleet of which replicas die at a stated rate, on the virtual clock: clients go on alone, and
come back at another replica.

Real engines, sessions, conversations and drafting loops; acceptance is stated. What is modelled: a replica dies at
once, its clients know at once, and another takes its place after a while. It may not know tables of other experiments.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from client.link.offline import OfflineOptions
from netem.experiments.capacity.acceptance import stated_recording
from netem.experiments.capacity.gaps import GapRecorder, LinkGaps
from netem.experiments.capacity.measure import EAGER, PLAIN
from netem.experiments.capacity.replay import END, Replay, ReplayDrafter
from netem.experiments.capacity.replica import ReplicaSystem, replay_options, replay_server
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.runs import drafter_failure, drawn, quantile
from netem.experiments.table_runs import converse
from netem.links.profiles import find_profile
from netem.virtual.clock import VirtualWorker, run_virtually
from netem.virtual.link import VirtualLink
from netem.virtual.stream import VirtualStream
from server.engine import Engine
from server.sessions.sessions import Sessions

SYSTEMS = (PLAIN, EAGER)
LINK = "5g"
ANSWER_TOKENS, PROMPT_TOKENS, ANSWERS = 96, 40, 12
_PATIENT = OfflineOptions(wait_s=600.0)
_NOBODY_S = 0.25
"""Until a client looks again, when no replica is there."""

HEADINGS = (
    *("system", "a replica dies", "deaths", "answers", "different", "moves of sessions"),
    *("tokens/s of a client", "gap p95", "wait after a death, p50", "longest"),
)


@dataclass(frozen=True, slots=True)
class FailingLoad:
    """`clients` of the whole fleet are always being answered, for `seconds`. A replica dies after `dies_after_s` in the
    mean, drawn exponentially, None for never; another one is there `back_after_s` later."""

    replicas: int
    clients: int
    seconds: float
    dies_after_s: float | None
    back_after_s: float = 4.0


FULL = FailingLoad(replicas=4, clients=20, seconds=40.0, dies_after_s=20.0)
QUICK = FailingLoad(replicas=2, clients=4, seconds=10.0, dies_after_s=5.0)


@dataclass
class FailingRun:
    """`moved`: how often a session went on at another replica. `waits`: seconds from the death of a session's replica
    to its next commit, or to the end of its answer or the run; a second death in between begins no new wait."""

    gaps: LinkGaps
    deaths: int = 0
    answers: int = 0
    different: int = 0
    moved: int = 0
    waits: list[float] = field(default_factory=list)


@dataclass(eq=False)
class _Replica:
    engine: Engine
    passes: asyncio.Task[None]
    streams: dict[int, VirtualStream] = field(default_factory=dict)  # by client


def run_failing(replay: Replay, system: ReplicaSystem, load: FailingLoad, seed: int) -> FailingRun:
    """Deterministic: deaths, choices of replicas and links are drawn by the seed."""
    random.seed(seed)  # of the pauses between attempts to reconnect
    return run_virtually(_Fleet(replay, system, load, seed).run())


class _Fleet:
    def __init__(self, replay: Replay, system: ReplicaSystem, load: FailingLoad, seed: int):
        self._replay = replay
        self._system = system
        self._load = load
        self._rng = random.Random(seed)
        self._link = find_profile(LINK)
        self._up: list[_Replica] = []
        self._lost_at: dict[int, float] = {}
        self._gaps = GapRecorder(0.0)
        self._found = FailingRun(LinkGaps(0, 0.0, []))

    async def run(self) -> FailingRun:
        load, found = self._load, self._found
        lives = [random.Random(self._rng.random()) for _ in range(load.replicas)]
        tasks = [asyncio.create_task(self._live_and_die(each)) for each in lives]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(self._ask_again_and_again(client)) for client in range(load.clients)]
        await asyncio.sleep(load.seconds)
        found.gaps = self._gaps.seen([LINK], load.seconds)[LINK]
        for client in list(self._lost_at):
            self._end_wait(client)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        for replica in self._up:
            replica.passes.cancel()
        return found

    async def _live_and_die(self, rng: random.Random) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            target, terms, limits, pace, capacity, factory = replay_server(self._replay, self._system)
            sessions = Sessions(terms, limits, capacity, share_prefixes="never")
            engine = Engine(sessions, target, pace, None, factory, clock, VirtualWorker)
            replica = _Replica(engine, asyncio.create_task(engine.run()))
            self._up.append(replica)
            if self._load.dies_after_s is None:
                return
            await asyncio.sleep(rng.expovariate(1 / self._load.dies_after_s))
            self._up.remove(replica)
            self._found.deaths += 1
            replica.passes.cancel()
            for client, stream in list(replica.streams.items()):
                self._lost_at.setdefault(client, clock())  # one that waits already has waited since then
                stream.close()
            await asyncio.sleep(self._load.back_after_s)

    def _end_wait(self, client: int) -> None:
        if (lost_at := self._lost_at.pop(client, None)) is not None:
            self._found.waits.append(asyncio.get_running_loop().time() - lost_at)

    def _chosen(self) -> _Replica | None:
        """The less loaded of two drawn replicas; None if none is there."""
        drawn_ones = self._rng.sample(self._up, min(2, len(self._up)))
        return min(drawn_ones, key=lambda each: len(each.streams), default=None)

    async def _ask_again_and_again(self, client: int) -> None:
        question = 0
        await asyncio.sleep(client * 0.1)  # so that each sees the others' sessions
        while True:
            await self._ask(client, question)
            question += 1

    async def _ask(self, client: int, question: int) -> None:
        replay, number = self._replay, client + question * self._load.clients
        profile, clock = drawn(self._link, client, question), asyncio.get_running_loop().time
        served_by: list[_Replica] = []

        async def dial() -> VirtualStream:
            while True:
                replica = self._chosen()
                if replica is None:
                    await asyncio.sleep(_NOBODY_S)
                    continue
                stream = await VirtualLink(replica.engine, profile).dial()
                if replica in self._up:
                    return sat_on(replica, stream)
                stream.close()

        def sat_on(replica: _Replica, stream: VirtualStream) -> VirtualStream:
            for before in served_by:
                before.streams.pop(client, None)
            served_by.append(replica)
            replica.streams[client] = stream
            return stream

        def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                self._gaps.committed(client, LINK, len(committed), clock())
                self._end_wait(client)

        prompt, options = replay.prompt(number), replay_options(replay, self._system, number)
        drafter = ReplayDrafter(replay) if self._system.policy.drafts else None
        terms = replay_server(replay, self._system)[1]
        conversation = converse(terms, await dial(), f"{client:08x}{question:08x}", options, drafter, dial, _PATIENT)
        try:
            answer = await conversation.answer(prompt, options.settings(), watch)
        finally:
            conversation.close()
            served_by[-1].streams.pop(client, None)
        self._gaps.answered(client)
        self._end_wait(client)
        self._found.answers += 1
        self._found.moved += len(served_by) - 1
        failed = bool(answer.failure or drafter_failure(answer))
        self._found.different += failed or answer.tokens != _recorded(replay, prompt)


def _recorded(replay: Replay, prompt: Sequence[int]) -> tuple[int, ...]:
    tokens = [replay.next(prompt[-1])]
    while tokens[-1] != END:
        tokens.append(replay.next(tokens[-1]))
    return tuple(tokens)


async def measure(request: Request, advance: Advance) -> Report:
    load = QUICK if request.quick else FULL
    replay = Replay(stated_recording(ANSWERS, ANSWER_TOKENS, PROMPT_TOKENS, request.seed))
    runs: dict[tuple[str, FailingLoad], FailingRun] = {}
    loads = (FailingLoad(load.replicas, load.clients, load.seconds, None), load)
    for system in SYSTEMS:
        for each in loads:
            advance(f"{system.name}, {'deaths' if each.dies_after_s else 'none dies'}", len(runs) / 4)
            # In a thread: the virtual clock has an event loop of its own.
            runs[system.name, each] = await asyncio.to_thread(run_failing, replay, system, each, request.seed)
    return make_report(runs, load)


def make_report(runs: dict[tuple[str, FailingLoad], FailingRun], load: FailingLoad) -> Report:
    different = sum(run.different for run in runs.values())
    return Report(
        title="A fleet of which replicas die",
        headings=HEADINGS,
        rows=[_row(system, each, run) for (system, each), run in runs.items()],
        remarks=(
            f"{load.clients} clients on {load.replicas} replicas, always being answered, for {load.seconds:g} s on the "
            f"virtual clock over {LINK}, at the stated costs. A replica dies after {load.dies_after_s:g} s in the mean "
            f"(exponential, far more often than real ones), and another one serves {load.back_after_s:g} s later.",
            "Clients know a death at once, draft on alone, and dial the less loaded of two others, in two round trips; "
            "the third, in which these say what they are, is not modelled. All K/V are computed anew.",
            "'different': from the recorded answer. 'wait after a death': from the death of a session's replica to its "
            "next commit. A gap that is open at the end counts as long as it is.",
            f"Answers have {ANSWER_TOKENS} tokens; no model is loaded: 77% of tokens are the draft's likeliest "
            "candidate and 95% among eight, as the demo's moa was recorded.",
        ),
        results={
            "rows": [
                {
                    "system": system,
                    "replicas": each.replicas,
                    "clients": each.clients,
                    "seconds": each.seconds,
                    "dies_after_s": each.dies_after_s,
                    "back_after_s": each.back_after_s,
                    "deaths": run.deaths,
                    "answers": run.answers,
                    "different": run.different,
                    "moved": run.moved,
                    "tokens_s_client": run.gaps.tokens_per_client_second,
                    "gap_p95_s": run.gaps.gap_p95_s,
                    "waits_s": run.waits,
                }
                for (system, each), run in runs.items()
            ]
        },
        faults=[f"{different} answers differ from the recorded ones"] if different else [],
    )


def _row(system: str, load: FailingLoad, run: FailingRun) -> list[str]:
    waits = (f"{quantile(run.waits, 0.5):.2f} s", f"{max(run.waits):.2f} s") if run.waits else ("-", "-")
    return [
        system,
        "never" if load.dies_after_s is None else f"after {load.dies_after_s:g} s",
        str(run.deaths),
        str(run.answers),
        str(run.different),
        str(run.moved),
        f"{run.gaps.tokens_per_client_second:.1f}",
        f"{1000 * run.gaps.gap_p95_s:.0f} ms",
        *waits,
    ]
