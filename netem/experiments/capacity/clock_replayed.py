"""`clock-replayed`: as `clock`, at the stated costs themselves, with recorded acceptance in place of the models.

Two cores compute the demo's models more slowly than streaming clients need them at the stated costs. Here passes and
levels look up what is stated of them and wait, so that protocol, drafting loops, gRPC and links are what is compared.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from client.answer import Answer
from client.demo.comparison import rotations
from client.drafting.policies import LOCKSTEP
from common.counted import counted
from common.stated_costs import STATED
from netem.experiments.capacity.acceptance import Recording, stated_recording
from netem.experiments.capacity.linked import LinkedClients, linked_clients
from netem.experiments.capacity.measure import AUTO, EAGER, PLAIN
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.replica import ReplicaSystem, answer_in_turn
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.clock_table import HEADINGS, LATE, ClockComparison, faults_of, played
from netem.experiments.speed.costs import OVERHEADS, VIRTUAL_COSTS
from netem.links.profiles import find_profile

SYSTEMS = (PLAIN, ReplicaSystem("lock-step", LOCKSTEP, "lockstep", server_drafting=False), EAGER, AUTO)
PROMPT_TOKENS = 40


@dataclass(frozen=True)
class ReplayedWorkload:
    """Every number of `clients` on each of `links`: `each` answers of `tokens` of every client, so often."""

    links: Sequence[str]
    clients: Sequence[int]
    each: int
    tokens: int
    repetitions: int


FULL = ReplayedWorkload(("4g", "5g", "satellite"), (1, 4), each=4, tokens=96, repetitions=3)
QUICK = ReplayedWorkload(("4g",), (1,), each=1, tokens=48, repetitions=1)


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    points = [(link, clients) for link in workload.links for clients in workload.clients]
    compared: list[ClockComparison] = []
    for number, (link, clients) in enumerate(points):
        advance(f"{link}, {counted(clients, 'client')}", number / len(points))
        recording = stated_recording(workload.each * clients, workload.tokens, PROMPT_TOKENS, request.seed)
        compared += await compare(recording, link, clients, workload)
    return make_report(compared, workload)


async def compare(
    recording: Recording, link: str, clients: int, workload: ReplayedWorkload, backend: str = "tun"
) -> list[ClockComparison]:
    """All systems: on the virtual clock with as many draws of the link as there are repetitions in real time, in which
    systems take turns. backend: what emulates the link."""
    virtual = {
        # In a thread: the virtual clock has an event loop of its own.
        system.name: await asyncio.to_thread(play_virtually, recording, system, link, clients, workload)
        for system in SYSTEMS
    }
    async with AsyncExitStack() as stack:
        linked: dict[str, LinkedClients] = {}
        begun: dict[str, Mapping[str, Any]] = {}
        for system in SYSTEMS:
            opened = linked_clients(recording, system, link, clients, backend)
            linked[system.name] = await stack.enter_async_context(opened)
            await linked[system.name].play(1)  # unmeasured, so that nobody pays for a connection
            begun[system.name] = await linked[system.name].server.counters()
        answers: dict[str, list[list[Answer]]] = {name: [] for name in linked}
        for order in rotations(tuple(linked), workload.repetitions):
            for name in order:
                answers[name].append(await linked[name].play(workload.each))
        real = {
            name: played(answers[name], _since(begun[name], await linked[name].server.counters())) for name in linked
        }
    return [
        ClockComparison(link, clients, 1, name, virtual[name], each.speeds, each.late_passes, each.late_levels)
        for name, each in real.items()
    ]


def _since(begun: Mapping[str, Any], counters: Mapping[str, Any]) -> dict[str, int]:
    names = ("passes", "overrun_passes", "assisted_levels", "overrun_levels")
    return {name: counters[name] - begun[name] for name in names}


def play_virtually(
    recording: Recording, system: ReplicaSystem, link: str, clients: int, workload: ReplayedWorkload
) -> float:
    """Tokens per second of a client, the mean over draws of the link."""
    replay, profile, answers = Replay(recording), find_profile(link), workload.each * clients
    return fmean(
        answer_in_turn(replay, system, profile, clients, answers, draw=draw) for draw in range(workload.repetitions)
    )


def make_report(compared: Sequence[ClockComparison], workload: ReplayedWorkload) -> Report:
    return Report(
        title="The virtual clock against real time over tun, with recorded acceptance",
        headings=HEADINGS,
        rows=[each.row for each in compared],
        remarks=(
            f"No model is loaded: 77% of tokens are the draft's likeliest candidate and 95% among eight, as the demo's "
            f"moa was recorded. {counted(workload.each, 'answer')} of {workload.tokens} tokens of each client behind "
            f"prompts of {PROMPT_TOKENS}, {counted(workload.repetitions, 'time')} in real time, systems in turn, and "
            "for as many draws of the link on the virtual clock. Speeds are tokens per second of a client, and means "
            "over repetitions.",
            f"Stated: {STATED.in_words}, on the server {STATED.server_level_ms:.2f} ms; on the virtual clock "
            f"{OVERHEADS}. {LATE}",
            "Real time: a server process for each system, gRPC and TCP over two TUN devices in two network namespaces, "
            "with loss; all clients of a system are in one process.",
        ),
        results={"stated_costs": VIRTUAL_COSTS, "points": [each.as_dict() for each in compared]},
        faults=faults_of(compared),
    )
