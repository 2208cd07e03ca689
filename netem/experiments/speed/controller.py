"""`controller`: what the controller makes of every link, against the best of a sweep of fixed trees, for each."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from client.stats import Stats, combined, per
from common.drafters.best_first import Expansion
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.costs import VIRTUAL, VIRTUAL_COSTS
from netem.experiments.speed.ground import Ground, open_ground
from netem.experiments.speed.runs import Extent, Run, faults_of, run_alone
from netem.experiments.speed.systems import AUTO, EAGER, System
from netem.links.profile import LinkProfile
from netem.links.profiles import PROFILES, find_profile

HEADINGS = ("link", "system", "controller", "best fixed", "its tree", "controller / best", "B up/token", "of the best")

_CHILDREN = 8
TREES = tuple(
    Expansion(breadth, _CHILDREN, nodes, least)
    for breadth, nodes, least in (
        (2, 32, 0.05),
        (3, 64, 0.02),
        (6, 64, 0.02),
        (8, 128, 0.005),
        (8, 256, 0.001),
        (12, 192, 0.005),
        (16, 256, 0.002),
        (16, 384, 0.0005),
    )
)
CATEGORIES = ("code", "math")

FULL = Extent(tuple(name for name, profile in PROFILES.items() if not profile.outages.gaps), prompts=2, tokens=160)
QUICK = Extent(("4g", "congested"), prompts=1, tokens=64)


@dataclass(frozen=True, slots=True)
class Swept:
    """One system on one link: by kind of prompt, and there with the controller and with each fixed tree."""

    link: str
    system: str
    steered: Mapping[str, Run]
    fixed: Mapping[Expansion, Mapping[str, Run]]

    @property
    def best(self) -> Expansion:
        """The tree that is fastest over all prompts together."""
        return max(self.fixed, key=lambda tree: speed(self.fixed[tree]))

    @property
    def ratio(self) -> float:
        return speed(self.steered) / speed(self.fixed[self.best])


def together(runs: Mapping[str, Run]) -> Stats:
    """All prompts as one."""
    return combined([run.stats for run in runs.values()])


def speed(runs: Mapping[str, Run]) -> float:
    return together(runs).tokens_per_second


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    ground = await asyncio.to_thread(open_ground, request, extent.prompts)
    points = [(link, system) for link in extent.links for system in (EAGER, AUTO)]
    swept = []
    for number, (link, system) in enumerate(points):
        advance(f"{link}, {system.name}", number / len(points))
        swept.append(await asyncio.to_thread(sweep, ground, find_profile(link), system, extent.tokens))
    return make_report(swept, extent)


def sweep(ground: Ground, profile: LinkProfile, system: System, tokens: int) -> Swept:
    def run(tree: Expansion | None) -> dict[str, Run]:
        tried = replace(system, policy=replace(system.policy, tree=tree))
        return {kind: run_alone(ground, profile, tried, ground.prompts[kind], tokens) for kind in CATEGORIES}

    return Swept(profile.name, system.name, run(None), {tree: run(tree) for tree in TREES})


def make_report(swept: list[Swept], extent: Extent) -> Report:
    return Report(
        title="The controller against the best fixed tree on every link",
        headings=HEADINGS,
        rows=[_row(each) for each in swept],
        remarks=(
            f"{extent.prompts} held-out prompts of each of {' and '.join(CATEGORIES)}, at most {extent.tokens} tokens "
            "each, greedy, draft moa; links with outages are left out, for answers are shorter than the time between.",
            VIRTUAL,
            "Tokens per second over all prompts. Fixed trees are written as breadth / nodes / least probability; the "
            "best was found for each link and system among " + ", ".join(map(in_words, TREES)) + ".",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "points": [
                {
                    "link": each.link,
                    "system": each.system,
                    "controller": speed(each.steered),
                    "ratio": each.ratio,
                    "best": asdict(each.best),
                    "sweep": [{**asdict(tree), "tokens_per_second": speed(runs)} for tree, runs in each.fixed.items()],
                }
                for each in swept
            ],
        },
        draw=lambda axes: _draw(axes, swept),
        faults=[fault for kind in CATEGORIES for fault in faults_of(_of_kind(swept, kind))],
    )


def _of_kind(swept: list[Swept], kind: str) -> list[Run]:
    return [runs[kind] for each in swept for runs in (each.steered, *each.fixed.values())]


def in_words(tree: Expansion) -> str:
    return f"{tree.breadth}/{tree.nodes}/{tree.least_probability:g}"


def _bytes_up(runs: Mapping[str, Run]) -> float:
    stats = together(runs)
    return per(stats.bytes_up, stats.tokens)


def _row(each: Swept) -> list[str]:
    best = each.fixed[each.best]
    return [
        each.link,
        each.system,
        f"{speed(each.steered):.1f}",
        f"{speed(best):.1f}",
        in_words(each.best),
        f"{each.ratio:.2f}",
        f"{_bytes_up(each.steered):.0f}",
        f"{_bytes_up(best):.0f}",
    ]


def _draw(axes: Any, swept: list[Swept]) -> None:
    links = list(dict.fromkeys(each.link for each in swept))
    for place, system in enumerate((EAGER.name, AUTO.name)):
        for index, link in enumerate(links):
            each = next(one for one in swept if one.link == link and one.system == system)
            at, colour = index + (place - 0.5) * 0.4, f"C{place}"
            fixed = [speed(runs) for runs in each.fixed.values()]
            axes.plot([at, at], [min(fixed), max(fixed)], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
            axes.plot(at, speed(each.steered), marker="_", markersize=12, markeredgewidth=2, color=colour)
        axes.plot([], [], color=f"C{place}", linewidth=5, alpha=0.35, label=f"{system}, fixed trees from worst to best")
        axes.plot([], [], color=f"C{place}", marker="_", linestyle="", markersize=12, label=f"{system}, the controller")
    axes.set_xticks(range(len(links)), links, rotation=45, ha="right")
    axes.set_ylabel("committed tokens per second")
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
