"""`network`: every system over every kind of link, as in Table 3 of Zimmer et al. 2025, on the virtual clock."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict

from client.drafting.policies import LOCKSTEP, LONG_LOCKSTEP, PUBLISHED_TREE, ROOMY_TREE
from client.stats import per
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.runs import Run, Runs, SpeedWorkload, are_alike, faults_of, run_everywhere
from netem.experiments.speed.systems import (
    CLOUD_DECODING,
    COLOCATED,
    LOCKSTEP_EAGLE,
    LOCKSTEP_MOA,
    OVERLAPPED,
    SYSTEMS,
)
from netem.experiments.speed.testbed import open_testbed
from netem.links.profiles import find_profile

HEADINGS = (
    "link",
    "system",
    "tokens/s",
    "x cloud",
    "x server-side",
    "x overlapped",
    "x lock-step moa",
    "x lock-step eagle",
    "first token",
    "accept length",
    "passes/token",
    "gap p50 / p95",
    "B up/token",
    "B down/token",
)

FULL = SpeedWorkload(("5g", "4g", "lte-drive", "cell-edge", "satellite"), prompts=12, tokens=192)
QUICK = SpeedWorkload(("5g", "4g", "satellite"), prompts=3, tokens=96)


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    return make_report(await run_everywhere(testbed, workload.links, SYSTEMS, workload, advance), workload)


def make_report(runs: Runs, workload: SpeedWorkload) -> Report:
    each = [run for systems in runs.values() for run in systems.values()]
    return Report(
        title="Every system over every link, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(link, name, run, systems) for link, systems in runs.items() for name, run in systems.items()],
        remarks=(
            f"{workload.prompts} held-out prompts for code, at most {workload.tokens} tokens each, greedy; answers "
            f"identical across systems and links: {'yes' if are_alike(each) else 'NO'}.",
            f"{VIRTUAL_CLOCK} The experiment `clock` has real time over tun beside it.",
            f"Rounds of lock-step have {LOCKSTEP.round_levels} levels, {PUBLISHED_TREE.breadth} nodes wide, of which "
            f"the last fills the tree to {PUBLISHED_TREE.nodes}, as published; 'long' has {LONG_LOCKSTEP.round_levels} "
            f"levels and up to {ROOMY_TREE.nodes} nodes. Server-side speculation has the same moa draft beside the "
            "target, ends each of its rounds where that makes it fastest, and the client only listens; 'overlapped' "
            "drafts during its passes too, as 'auto' does.",
            "tokens/s are sums over sums, the first token is a median, a gap is the time between two commits that "
            "bring tokens. 'x' divides tokens/s by the baseline's on the same link.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "links": {
                link: {
                    "profile": asdict(find_profile(link)),
                    "systems": {name: run.as_dict() for name, run in systems.items()},
                }
                for link, systems in runs.items()
            },
        },
        faults=faults_of(each),
    )


def _row(link: str, name: str, run: Run, systems: Mapping[str, Run]) -> list[str]:
    stats = run.stats
    against = [
        f"{per(stats.tokens_per_second, systems[baseline.name].stats.tokens_per_second):.2f}"
        for baseline in (CLOUD_DECODING, COLOCATED, OVERLAPPED, LOCKSTEP_MOA, LOCKSTEP_EAGLE)
    ]
    return [
        link,
        name,
        f"{stats.tokens_per_second:.1f}",
        *against,
        f"{1000 * stats.ttft_seconds:.0f} ms",
        f"{stats.accept_length:.2f}",
        f"{per(stats.passes, stats.tokens):.2f}",
        f"{1000 * run.gap(0.5):.0f} / {1000 * run.gap(0.95):.0f} ms",
        f"{per(stats.bytes_up, stats.tokens):.0f}",
        f"{per(stats.bytes_down, stats.tokens):.0f}",
    ]
