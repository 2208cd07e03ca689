"""`load`: latency at rising arrival rates, as in Figure 4 of Zimmer et al. 2025, and the throughput of one server with
many clients."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.load_clients import LoadClient, Prompt, arriving, poisson_arrivals, returning
from netem.experiments.speed.load_report import ARRIVING, TOGETHER, Load, LoadRuns, make_report
from netem.experiments.speed.load_run import LoadRun, run_load
from netem.experiments.speed.runs import CODE
from netem.experiments.speed.systems import (
    AUTO,
    CLOUD_DECODING,
    COLOCATED,
    EAGER,
    LOCKSTEP_MOA,
    OVERLAPPED,
    PATIENT,
)
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.experiments.steps import Steps
from netem.links.profiles import find_profile

LINK = "4g"
COMPARED = (CLOUD_DECODING, COLOCATED, OVERLAPPED, LOCKSTEP_MOA, PATIENT, EAGER, AUTO)


@dataclass(frozen=True)
class LoadWorkload:
    """Two kinds of load.

    Poisson arrivals at each of `rates` per second, for `seconds` and until there are `least_arrivals`. And for each
    number in `clients`, so many clients with `each` prompts one after the other, which begin within `stagger_s`.
    """

    rates: Sequence[float]
    seconds: float
    least_arrivals: int
    clients: Sequence[int]
    each: int
    stagger_s: float
    prompts: int
    tokens: Mapping[str, int]  # the longest answer, by the kind of load


FULL = LoadWorkload(
    rates=(0.5, 1, 2, 4, 8, 16, 32),
    seconds=5.0,
    least_arrivals=48,
    clients=(1, 2, 4, 8, 16, 32, 64),
    each=2,
    stagger_s=0.25,
    prompts=60,
    tokens={ARRIVING: 96, TOGETHER: 64},
)
QUICK = replace(FULL, rates=(1, 4), seconds=4.0, least_arrivals=6, clients=(1, 8), tokens={ARRIVING: 48, TOGETHER: 48})


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    loads = make_loads(workload, request.seed, testbed.prompts[CODE])
    runs = await run_all(testbed, loads, workload.tokens, advance, request.steps)
    return make_report(runs, workload.tokens, LINK)


def make_loads(workload: LoadWorkload, seed: int, prompts: Sequence[Prompt]) -> dict[Load, list[LoadClient]]:
    """The clients of every load; the same for the same arguments."""
    moments = {rate: poisson_arrivals(rate, workload.seconds, workload.least_arrivals, seed) for rate in workload.rates}
    return {
        **{Load(ARRIVING, rate): arriving(moments[rate], prompts) for rate in workload.rates},
        **{
            Load(TOGETHER, count): returning(count, workload.each, workload.stagger_s, prompts)
            for count in workload.clients
        },
    }


async def run_all(
    testbed: Testbed,
    loads: Mapping[Load, Sequence[LoadClient]],
    tokens: Mapping[str, int],
    advance: Advance,
    steps: Steps,
) -> LoadRuns:
    questions = {load: sum(len(client.prompts) for client in clients) for load, clients in loads.items()}
    answers, behind = len(COMPARED) * sum(questions.values()), 0
    runs: dict[Load, dict[str, LoadRun]] = {load: {} for load in loads}
    for load, clients in loads.items():
        for system in COMPARED:
            step = f"{load}, {system.name}"
            advance(step, behind / answers)
            run = partial(run_load, testbed, find_profile(LINK), system, clients, tokens[load.of])
            # In a thread: the virtual clock has an event loop of its own.
            runs[load][system.name] = await asyncio.to_thread(steps.once, step, run)
            behind += questions[load]
    return runs
