"""`clock`: compares speeds on the virtual clock with speeds in real time over tun, for one client and for four.

The same systems answer the same prompts twice: on the virtual clock, and in real time as processes with the same stated
costs. Where this machine takes longer than a stated cost, only real time is late, and a speed with many late passes or
levels cannot be compared. Systems are therefore run with all costs four and sixteen times as high too, on both sides,
and four clients only so; links stay the same.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from client.answer import Answer
from client.demo.comparison import rotations
from common.counted import counted
from common.protocol.errors import MisuseError, OutriderError
from common.stated_costs import STATED, StatedCosts
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.speed.clock_table import HEADINGS, LATE, ClockComparison, Played, faults_of, played
from netem.experiments.speed.costs import OVERHEADS, VIRTUAL_COSTS
from netem.experiments.speed.real import RealSystem, rotated, start_system
from netem.experiments.speed.runs import CODE, Asker, Run, TimedAnswer, drawn, fault_of
from netem.experiments.speed.systems import (
    AUTO,
    CLOUD_DECODING,
    EAGER,
    LOCKSTEP_MOA,
    System,
)
from netem.experiments.speed.testbed import Testbed, models, open_testbed
from netem.links.calibrating.calibrate import calibrate
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually
from netem.virtual.server import pace_of
from server.engine import Engine


@dataclass(frozen=True)
class ClockSetting:
    """One comparison. slower: the factor on all stated costs, on both sides. repetitions: of every prompt in real time,
    and draws of the link for every prompt on the virtual clock. Jitter of 4g changes a single answer's speed by 7%.
    Where `auto` takes five to seven passes for an answer, one more is a seventh to a fifth of it: then many prompts say
    more than repetitions."""

    link: str
    clients: int
    slower: int
    systems: tuple[System, ...]
    repetitions: int
    prompts: int = 4

    @property
    def costs(self) -> StatedCosts:
        return STATED.times(self.slower)


_ALL = (CLOUD_DECODING, LOCKSTEP_MOA, EAGER, AUTO)
_LINKS = ("4g", "5g", "satellite")


@dataclass(frozen=True)
class ClockWorkload:
    settings: tuple[ClockSetting, ...]
    tokens: int


FULL = ClockWorkload(
    (
        *(ClockSetting(link, 1, 1, _ALL, repetitions=4) for link in _LINKS),
        *(ClockSetting(link, 1, 4, _ALL, repetitions=2) for link in _LINKS),
        *(ClockSetting(link, 4, 4, (CLOUD_DECODING, LOCKSTEP_MOA), repetitions=1) for link in _LINKS),
        # Two cores keep the costs of levels that guess ahead, and of four streaming clients, only where these are high.
        *(ClockSetting(link, 1, 16, (AUTO,), repetitions=2, prompts=12) for link in _LINKS),
        *(ClockSetting(link, 4, 16, (EAGER, AUTO), repetitions=1) for link in _LINKS),
    ),
    tokens=96,
)
QUICK = ClockWorkload((ClockSetting("4g", 1, 1, (CLOUD_DECODING, EAGER), 1, prompts=1),), tokens=48)


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError where there are fewer prompts than a setting asks for."""
    workload = QUICK if request.quick else FULL
    most = max(setting.prompts for setting in workload.settings)
    testbed = await asyncio.to_thread(open_testbed, request, most)
    if (found := len(testbed.prompts.get(CODE, ()))) < most:
        file = find_model_paths(request).prompts
        raise MisuseError(f"`clock` asks {most} held-out prompts for code, and {file} has {found}; add more to it")
    links: dict[str, dict[str, Any]] = {}
    for link in dict.fromkeys(setting.link for setting in workload.settings):
        advance(f"calibrating {link}", 0.0)
        links[link] = (await calibrate(find_profile(link), quick=True)).as_dict()
    compared: list[ClockComparison] = []
    for number, setting in enumerate(workload.settings):
        share = number / len(workload.settings)
        advance(f"{setting.link}, {counted(setting.clients, 'client')}", share)
        compared += await _compare_setting(testbed, request, workload, setting)
    return make_report(compared, workload, links)


async def _compare_setting(
    testbed: Testbed, request: Request, workload: ClockWorkload, setting: ClockSetting
) -> list[ClockComparison]:
    prompts = testbed.prompts[CODE][: setting.prompts]
    virtual = {
        system.name: await asyncio.to_thread(play_virtually, testbed, setting, system, prompts, workload.tokens)
        for system in setting.systems
    }
    target, *drafts = models(request).values()
    real: dict[str, list[Sequence[Answer]]] = {system.name: [] for system in setting.systems}
    async with AsyncExitStack() as stack:
        running_systems: dict[str, RealSystem] = {}
        for system in setting.systems:
            costs = setting.costs
            opened = start_system(
                target, drafts, setting.link, system, setting.clients, pace_of(costs), costs.draft_seconds
            )
            running_systems[system.name] = await stack.enter_async_context(opened)
            await running_systems[system.name].warm_up(prompts[0])
        # Systems take turns, so that other load on the machine affects all of them.
        for order in rotations(tuple(running_systems), setting.repetitions):
            for name in order:
                real[name].append(await running_systems[name].play(prompts, workload.tokens))
    return [
        _compared(setting, name, virtual[name], played(real[name], running_systems[name].server.summary()))
        for name in running_systems
    ]


def _compared(setting: ClockSetting, name: str, virtual: float, real: Played) -> ClockComparison:
    point = (setting.link, setting.clients, setting.slower, name)
    return ClockComparison(*point, virtual, real.speeds, real.late_passes, real.late_levels)


def play_virtually(
    testbed: Testbed, setting: ClockSetting, system: System, prompts: Sequence[Sequence[int]], tokens: int
) -> float:
    """Tokens per second with as many clients as in real time, each with every prompt; the mean over draws of the link.

    Raises OutriderError where an answer is incomplete or its drafter failed, as in real time.
    """
    profile, options = find_profile(setting.link), system.options(tokens, setting.costs.draft_seconds)

    async def client(engine: Engine, draw: int, index: int) -> list[TimedAnswer]:
        asker = Asker(testbed, engine, system, options)
        return [
            await asker.ask_timed(drawn(profile, draw, index, number), prompt)
            for number, prompt in enumerate(rotated(prompts, index))
        ]

    async def main(draw: int) -> Run:
        async with testbed.server.serve(pace=pace_of(setting.costs)) as engine:
            played = await asyncio.gather(*(client(engine, draw, index) for index in range(setting.clients)))
            return Run([timed for answers in played for timed in answers], engine.counters)

    runs = [run_virtually(main(draw)) for draw in range(setting.repetitions)]
    for timed in (timed for run in runs for timed in run.answers):
        if fault := fault_of(timed.answer):
            raise OutriderError(f"on the virtual clock, {fault}")
    return fmean(run.stats.tokens_per_second for run in runs)


def make_report(
    compared: Sequence[ClockComparison], workload: ClockWorkload, links: dict[str, dict[str, Any]]
) -> Report:
    return Report(
        title="The virtual clock against real time over tun",
        headings=HEADINGS,
        rows=[each.row for each in compared],
        remarks=(
            f"Held-out prompts for code, at most {workload.tokens} tokens each, greedy: {_prompts(workload)}; systems "
            "in turn in real time, on the virtual clock as many draws of the link. Speeds are means over repetitions. "
            "No server shares prefixes, so that a prompt costs the same whatever was asked before.",
            f"Costs are times {STATED.in_words}, on the server {STATED.server_level_ms:.2f} ms, with what Python does "
            f"between two passes or levels; on the virtual clock {OVERHEADS}, whatever the factor. {LATE}",
            "Real time: TCP over two TUN devices in two network namespaces, with loss; the links as measured are in "
            "results.json.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "links": links,
            "points": [each.as_dict() for each in compared],
        },
        faults=[fault for link in links.values() for fault in link["faults"]] + faults_of(compared),
    )


def _prompts(workload: ClockWorkload) -> str:
    """How many there are and how often each is asked, by the factor on costs and the number of clients."""
    return ", ".join(
        f"{each.prompts} asked {counted(each.repetitions, 'time')} at x{each.slower} with "
        f"{counted(each.clients, 'client')}"
        for each in _of_each_kind(workload)
    )


def _of_each_kind(workload: ClockWorkload) -> Collection[ClockSetting]:
    return {(each.slower, each.clients): each for each in workload.settings}.values()
