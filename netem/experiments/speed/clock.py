"""`clock`: the virtual clock held against real time over tun, for one client and for two.

Where this machine cannot keep the stated costs, both sides are run at costs that are some times as high; links stay as
they are.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from client.answering import AnswerOptions
from client.conversation import Answer
from client.demo.comparison import rotations
from client.demo.costs import DRAFT_SECONDS, IN_WORDS, OVERRUN_LIMIT, STATED, overrun_share
from client.stats import combined, per
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.ground import Ground, models, open_ground
from netem.experiments.speed.real import Stage, stage
from netem.experiments.speed.systems import (
    AUTO,
    CLOUD_DECODING,
    COLOCATED,
    EAGER,
    LOCKSTEP_MOA,
    System,
)
from netem.links.calibrating.calibrate import calibrate
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually
from netem.virtual.datacenter import PACE
from netem.virtual.laptop import ask
from server.pace import Pace

HEADINGS = (
    "link",
    "clients",
    "costs",
    "system",
    "virtual tokens/s",
    "real tokens/s",
    "least - most",
    "virtual / real",
    "late passes",
    "late levels",
)

WITHIN = 0.1
"""The share of the real speed that the virtual one may be off."""

_CATEGORY = "code"
_VIRTUAL_SEEDS = 3  # as many draws of the link, each for every prompt


@dataclass(frozen=True)
class Setting:
    """`slower` times the stated costs."""

    link: str
    clients: int
    slower: int
    systems: tuple[System, ...]


_ON_THE_LAPTOP = (CLOUD_DECODING, LOCKSTEP_MOA, EAGER)
_ON_THE_SERVER = (COLOCATED, AUTO)


@dataclass(frozen=True)
class Extent:
    settings: tuple[Setting, ...]
    prompts: int
    tokens: int
    repetitions: int


FULL = Extent(
    (
        Setting("4g", 1, 1, (*_ON_THE_LAPTOP, *_ON_THE_SERVER)),
        Setting("5g", 1, 1, _ON_THE_LAPTOP),
        Setting("4g", 2, 1, _ON_THE_LAPTOP),
        Setting("4g", 1, 4, _ON_THE_SERVER),
    ),
    prompts=2,
    tokens=96,
    repetitions=3,
)
QUICK = Extent((Setting("4g", 1, 1, (CLOUD_DECODING, EAGER)),), prompts=1, tokens=48, repetitions=1)


@dataclass(frozen=True, slots=True)
class Held:
    """One system: its speed on the virtual clock, and in each repetition in real time, in tokens per second."""

    setting: Setting
    system: str
    virtual: float
    real: Sequence[float]
    late_passes: float
    late_levels: float

    @property
    def ratio(self) -> float:
        return self.virtual / median(self.real)

    @property
    def counts(self) -> bool:
        """Whether the machine kept the stated costs."""
        return max(self.late_passes, self.late_levels) <= OVERRUN_LIMIT


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    ground = await asyncio.to_thread(open_ground, request, extent.prompts)
    links: dict[str, dict[str, Any]] = {}
    for link in dict.fromkeys(setting.link for setting in extent.settings):
        advance(f"calibrating {link}", 0.0)
        links[link] = (await calibrate(find_profile(link), quick=True)).as_dict()
    held: list[Held] = []
    for number, setting in enumerate(extent.settings):
        share = number / len(extent.settings)
        advance(f"{setting.link}, {setting.clients} clients", share)
        held += await _hold(ground, request, extent, setting)
    return make_report(held, extent, links)


async def _hold(ground: Ground, request: Request, extent: Extent, setting: Setting) -> list[Held]:
    prompts = ground.prompts[_CATEGORY]
    virtual = {
        system.name: await asyncio.to_thread(play_virtually, ground, setting, system, prompts, extent.tokens)
        for system in setting.systems
    }
    target, *drafts = models(request).values()
    real: dict[str, list[Sequence[Answer]]] = {system.name: [] for system in setting.systems}
    async with AsyncExitStack() as stack:
        stages: dict[str, Stage] = {}
        for system in setting.systems:
            paced = (pace_of(setting), setting.slower * DRAFT_SECONDS)
            opened = stage(target, drafts, setting.link, system, setting.clients, *paced)
            stages[system.name] = await stack.enter_async_context(opened)
            await stages[system.name].warm_up(prompts[0])
        # Systems take turns, so that what else the machine does falls on all of them.
        for order in rotations(tuple(stages), extent.repetitions):
            for name in order:
                real[name].append(await stages[name].play(prompts, extent.tokens))
    return [_held(setting, name, virtual[name], real[name], stages[name].server.summary()) for name in stages]


def _held(
    setting: Setting, name: str, virtual: float, real: Sequence[Sequence[Answer]], counters: dict[str, Any]
) -> Held:
    answers = [answer for repetition in real for answer in repetition]
    levels = sum(answer.levels for answer in answers) + int(counters["assisted_levels"])
    late = sum(answer.overrun_levels for answer in answers) + int(counters["overrun_levels"])
    speeds = [combined([answer.stats for answer in repetition]).tokens_per_second for repetition in real]
    return Held(setting, name, virtual, speeds, overrun_share(counters), per(late, levels))


def pace_of(setting: Setting) -> Pace:
    times = setting.slower
    return Pace(times * PACE.per_pass, times * PACE.per_token, times * PACE.per_level)


def play_virtually(
    ground: Ground, setting: Setting, system: System, prompts: Sequence[Sequence[int]], tokens: int
) -> float:
    """Tokens per second of as many clients as in real time, each with every prompt, the mean over draws of the link."""
    profile = find_profile(setting.link)
    options = AnswerOptions(system.policy, tokens, idle=system.idle, pace=setting.slower * DRAFT_SECONDS)

    async def client(engine: Any, seed: int, place: int) -> list[Answer]:
        return [
            await ask(
                engine,
                ground.datacenter,
                _drawn(profile, seed, place, number),
                prompt,
                options,
                None if system.draft is None else ground.laptops.drafter(system.draft),
            )
            for number, prompt in enumerate([*prompts[place:], *prompts[:place]])
        ]

    async def main(seed: int) -> list[Answer]:
        async with ground.datacenter.serve(pace=pace_of(setting)) as engine:
            played = await asyncio.gather(*(client(engine, seed, place) for place in range(setting.clients)))
            return [answer for answers in played for answer in answers]

    runs = [run_virtually(main(seed)) for seed in range(_VIRTUAL_SEEDS)]
    return fmean(combined([answer.stats for answer in answers]).tokens_per_second for answers in runs)


def _drawn(profile: LinkProfile, *numbers: int) -> LinkProfile:
    """The link with draws of its own for each of these numbers."""
    return replace(profile, seed=sum(number * 1000**place for place, number in enumerate(numbers)))


def make_report(held: Sequence[Held], extent: Extent, links: dict[str, dict[str, Any]]) -> Report:
    off = [each for each in held if each.counts and abs(each.ratio - 1) > WITHIN]
    return Report(
        title="The virtual clock against real time over tun",
        headings=HEADINGS,
        rows=[_row(each) for each in held],
        remarks=(
            f"{extent.prompts} held-out prompts for code, at most {extent.tokens} tokens each, greedy; in real time "
            f"{extent.repetitions} repetitions, systems in turn, the median in the table; on the virtual clock the "
            f"mean over {_VIRTUAL_SEEDS} draws of the link.",
            f"Costs are times {IN_WORDS}, on the server {PACE.per_level * 1000:.2f} ms. Late: took longer on this "
            f"machine than stated; above {OVERRUN_LIMIT:.0%}, in brackets, the real speed says nothing.",
            "Real time: TCP over two TUN devices in two network namespaces, with loss; the links as measured are in "
            "results.json.",
        ),
        results={
            "stated_costs": {**STATED, "server_level_ms": PACE.per_level * 1000},
            "links": links,
            "points": [
                {
                    "link": each.setting.link,
                    "clients": each.setting.clients,
                    "costs": each.setting.slower,
                    "system": each.system,
                    "virtual": each.virtual,
                    "real": list(each.real),
                    "ratio": each.ratio,
                    "late_passes": each.late_passes,
                    "late_levels": each.late_levels,
                    "counts": each.counts,
                }
                for each in held
            ],
        },
        draw=lambda axes: _draw(axes, held),
        faults=[
            f"{each.system} on {each.setting.link} with {each.setting.clients} clients is {each.ratio:.2f} times as "
            "fast on the virtual clock as in real time"
            for each in off
        ]
        + [
            f"{name} never kept its costs, so nothing holds it against real time"
            for name in dict.fromkeys(each.system for each in held)
            if not any(each.counts for each in held if each.system == name)
        ],
    )


def _row(each: Held) -> list[str]:
    ratio = f"{each.ratio:.2f}"
    return [
        each.setting.link,
        str(each.setting.clients),
        f"x{each.setting.slower}",
        each.system,
        f"{each.virtual:.1f}",
        f"{median(each.real):.1f}",
        f"{min(each.real):.1f} - {max(each.real):.1f}",
        ratio if each.counts else f"({ratio})",
        f"{each.late_passes:.1%}",
        f"{each.late_levels:.1%}",
    ]


def _draw(axes: Any, held: Sequence[Held]) -> None:
    for place, system in enumerate(dict.fromkeys(each.system for each in held)):
        for counts, fill in ((True, f"C{place}"), (False, "none")):
            points = [each for each in held if each.system == system and each.counts == counts]
            axes.scatter(
                [median(each.real) for each in points],
                [each.virtual for each in points],
                facecolors=fill,
                edgecolors=f"C{place}",
                label=system if counts else None,
            )
    most = max(max(each.virtual, median(each.real)) for each in held)
    axes.plot([0, most], [0, most], color="grey", linewidth=1, label="equal")
    axes.fill_between([0, most], [0, (1 - WITHIN) * most], [0, (1 + WITHIN) * most], color="grey", alpha=0.15)
    axes.scatter([], [], facecolors="none", edgecolors="black", label="hollow: costs not kept in real time")
    axes.set_xlabel("tokens per second in real time over tun")
    axes.set_ylabel("tokens per second on the virtual clock")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
