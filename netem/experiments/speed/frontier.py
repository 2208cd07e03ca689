"""`frontier`: tokens per pass, which is what a busy GPU gains, against tokens per second, which is what a user sees."""

import asyncio
from dataclasses import replace

from client.drafting.policies import ROOMY_TREE
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.runs import Run, Runs, SpeedWorkload, faults_of, run_everywhere
from netem.experiments.speed.systems import ASSIST, LOCKSTEP_MOA, SYSTEMS, System
from netem.experiments.speed.testbed import open_testbed

HEADINGS = ("link", "policy", "accept length", "tokens/s", "gap p50 / p95")
ROUND_LEVELS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)

FULL = SpeedWorkload(("5g", "4g", "satellite"), prompts=8, tokens=192)
QUICK = SpeedWorkload(("4g",), prompts=3, tokens=96)


def systems() -> dict[str, System]:
    """Lock-step with rounds of every length, and all other systems as in the other experiments."""
    policy = replace(LOCKSTEP_MOA.policy, tree=ROOMY_TREE)
    rounds = {
        f"lock-step moa, {levels}": replace(LOCKSTEP_MOA, policy=replace(policy, round_levels=levels))
        for levels in ROUND_LEVELS
    }
    # With one client `auto` behaves as `assist`.
    others = {
        name: system
        for name, system in SYSTEMS.items()
        if not name.startswith(LOCKSTEP_MOA.name) and name != ASSIST.name
    }
    return {**others, **rounds}


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    return make_report(await run_everywhere(testbed, workload.links, systems(), workload, advance), workload)


def make_report(runs: Runs, workload: SpeedWorkload) -> Report:
    return Report(
        title="Tokens per pass against tokens per second",
        headings=HEADINGS,
        rows=[_row(link, name, run) for link, of_link in runs.items() for name, run in of_link.items()],
        remarks=(
            f"{workload.prompts} held-out prompts for code, at most {workload.tokens} tokens each, greedy, one client.",
            VIRTUAL_CLOCK,
            "Accept length is committed tokens per pass, the bonus token included. Numbers behind lock-step are the "
            "levels of its rounds. Draft moa where none is named.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "links": {link: {name: run.as_dict() for name, run in of_link.items()} for link, of_link in runs.items()},
        },
        faults=faults_of([run for of_link in runs.values() for run in of_link.values()]),
    )


def _row(link: str, name: str, run: Run) -> list[str]:
    stats = run.stats
    gaps = f"{1000 * run.gap(0.5):.0f} / {1000 * run.gap(0.95):.0f} ms"
    return [link, name, f"{stats.accept_length:.2f}", f"{stats.tokens_per_second:.1f}", gaps]
