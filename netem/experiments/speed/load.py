"""`load`: latency at rising arrivals, as in Figure 4 of Zimmer et al. 2025, and what one server gives many clients."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.ground import Ground, open_ground
from netem.experiments.speed.load_comers import Comer, Prompt, arriving, poisson_arrivals, returning
from netem.experiments.speed.load_crowd import Crowd, run_crowd
from netem.experiments.speed.load_report import ARRIVING, TOGETHER, Crowds, Load, make_report
from netem.experiments.speed.runs import CODE
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, COLOCATED, EAGER, LOCKSTEP_MOA, PATIENT
from netem.links.profiles import find_profile

LINK = "4g"
COMPARED = (CLOUD_DECODING, COLOCATED, LOCKSTEP_MOA, PATIENT, EAGER, AUTO)


@dataclass(frozen=True)
class Extent:
    """Arrivals go on for `seconds`, and until there are `least`; clients ask `each` prompts, the first of them within
    `stagger` seconds."""

    rates: Sequence[float]
    seconds: float
    least: int
    clients: Sequence[int]
    each: int
    stagger: float
    prompts: int
    tokens: Mapping[str, int]  # of an answer at most, by the kind of load


FULL = Extent(
    rates=(0.5, 1, 2, 4, 8, 16),
    seconds=5.0,
    least=16,
    clients=(1, 2, 4, 8, 16, 32, 64),
    each=2,
    stagger=0.25,
    prompts=60,
    tokens={ARRIVING: 96, TOGETHER: 64},
)
QUICK = replace(FULL, rates=(1, 4), seconds=4.0, least=6, clients=(1, 8), tokens={ARRIVING: 48, TOGETHER: 48})


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    ground = await asyncio.to_thread(open_ground, request, extent.prompts)
    loads = make_loads(extent, request.seed, ground.prompts[CODE])
    return make_report(await run_all(ground, loads, extent.tokens, advance), extent.tokens, LINK)


def make_loads(extent: Extent, seed: int, prompts: Sequence[Prompt]) -> dict[Load, list[Comer]]:
    moments = {rate: poisson_arrivals(rate, extent.seconds, extent.least, seed) for rate in extent.rates}
    return {
        **{Load(ARRIVING, rate): arriving(moments[rate], prompts) for rate in extent.rates},
        **{Load(TOGETHER, count): returning(count, extent.each, extent.stagger, prompts) for count in extent.clients},
    }


async def run_all(
    ground: Ground, loads: Mapping[Load, Sequence[Comer]], tokens: Mapping[str, int], advance: Advance
) -> Crowds:
    questions = {load: sum(len(comer.prompts) for comer in comers) for load, comers in loads.items()}
    answers, behind = len(COMPARED) * sum(questions.values()), 0
    crowds: dict[Load, dict[str, Crowd]] = {load: {} for load in loads}
    for load, comers in loads.items():
        for system in COMPARED:
            advance(f"{load}, {system.name}", behind / answers)
            # In a thread: the virtual clock has an event loop of its own.
            crowds[load][system.name] = await asyncio.to_thread(
                run_crowd, ground, find_profile(LINK), system, comers, tokens[load.of]
            )
            behind += questions[load]
    return crowds
