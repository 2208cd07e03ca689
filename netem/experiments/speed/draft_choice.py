"""`draft-choice`: the draft model that `--draft auto` takes against every fixed one, on links, laptops and kinds of
prompts, from the first answer on.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from client.drafting.depth import drafts_without_state
from client.drafting.fastest_draft import Compared, fastest
from common.draft_kinds import LOOKUP
from common.draft_models.measured_acceptance import MeasuredAcceptance, read_measured_acceptance
from common.models.shipped import ModelFolder
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.runs import Run, faults_of, run_alone
from netem.experiments.speed.systems import EAGER, System
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.experiments.steps import Steps
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.client import DraftSetup


@dataclass(frozen=True)
class ChoiceWorkload:
    """`prompts` of each kind on each of `links`, with answers of at most `tokens`; `levels`: seconds of a drafted level
    on each of the stated laptops."""

    links: Sequence[str]
    levels: Sequence[float]
    prompts: int
    tokens: int


FULL = ChoiceWorkload(("5g", "4g", "satellite"), (0.005, 0.03), prompts=16, tokens=128)
QUICK = ChoiceWorkload(("4g",), (0.005,), prompts=1, tokens=48)


Speeds = Mapping[str, Mapping[str, Run]]
"""Runs by draft, then by kind of prompt."""


@dataclass(frozen=True)
class Place:
    """A link and a stated laptop. `taken`: the name of the draft that `auto` takes there."""

    link: str
    level: float
    taken: str
    runs: Speeds

    def speed(self, draft: str, kind: str) -> float:
        return self.runs[draft][kind].stats.tokens_per_second

    def mean(self, draft: str) -> float:
        """The mean tokens per second of all kinds of prompts."""
        return fmean(self.speed(draft, kind) for kind in self.runs[draft])

    @property
    def best(self) -> str:
        return max(self.runs, key=self.mean)

    def ratio(self, kind: str) -> float:
        """What `auto` has of the draft that is fastest with this kind of prompts, among all that were tried."""
        return self.speed(self.taken, kind) / max(self.speed(draft, kind) for draft in self.runs)

    @property
    def ratios(self) -> dict[str, float]:
        return {kind: self.ratio(kind) for kind in self.runs[self.taken]}


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    worths = await asyncio.to_thread(noted_worths, request, testbed)
    points = [(link, level) for link in workload.links for level in workload.levels]
    places = []
    for number, (link, level) in enumerate(points):

        def of_place(draft: str, share: float, before: int = number, link: str = link) -> None:
            advance(f"{link}, {draft}", (before + share) / len(points))

        profile = find_profile(link)
        places.append(
            await asyncio.to_thread(
                run_place, testbed, worths, profile, level, workload.tokens, of_place, request.steps
            )
        )
    return make_report(places, workload)


def noted_worths(request: Request, testbed: Testbed) -> dict[str, MeasuredAcceptance]:
    """What was noted after training of each draft model that `auto` compares, running none of the target's layers."""
    vocab_size = testbed.server.offer.card.vocab_size
    worths: dict[str, MeasuredAcceptance] = {}
    for path in ModelFolder(find_model_paths(request).folder).drafts:
        of_depths, drafter = read_measured_acceptance(path), testbed.drafter(DraftSetup(path.name))
        if 0 in of_depths and drafter is not None and drafts_without_state(drafter, vocab_size):
            worths[path.name] = of_depths[0]
    return worths


def taken_by_auto(worths: Mapping[str, MeasuredAcceptance], level: float, round_trip: float) -> str:
    """What `--draft auto` takes where a level of each draft model takes so many seconds."""
    return fastest([Compared(0, worth, level, draft) for draft, worth in worths.items()], round_trip)


def run_place(
    testbed: Testbed,
    worths: Mapping[str, MeasuredAcceptance],
    profile: LinkProfile,
    level: float,
    tokens: int,
    advance: Advance,
    steps: Steps,
) -> Place:
    """Every draft with `lookup` beside it, and what `auto` takes without, on one link with one laptop."""
    round_trip_s = (profile.up.delay_ms + profile.down.delay_ms) / 1000
    taken = taken_by_auto(worths, level, round_trip_s)
    systems = [_system(name) for name in (*(f"{each}+{LOOKUP}" for each in worths), taken.split("+")[0])]
    runs: dict[str, dict[str, Run]] = {}
    for number, system in enumerate(systems):
        advance(system.name, number / len(systems))
        runs[system.name] = {
            kind: steps.once(
                f"{profile.name}, {level}, {system.name}, {kind}",
                partial(run_alone, testbed, profile, system, prompts, tokens, level),
            )
            for kind, prompts in testbed.prompts.items()
        }
    return Place(profile.name, level, taken, runs)


def _system(names: str) -> System:
    draft, *beside = map(DraftSetup, names.split("+"))
    return replace(EAGER, name=names, draft=draft, beside=tuple(beside))


def make_report(places: Sequence[Place], workload: ChoiceWorkload) -> Report:
    kinds = list(places[0].ratios)
    least = min(ratio for place in places for ratio in place.ratios.values())
    return Report(
        title="`--draft auto` against every fixed draft",
        headings=("link", "level", "draft", *kinds, "mean", "auto / best, least"),
        rows=[row for place in places for row in _rows(place)],
        remarks=(
            f"{workload.prompts} held-out prompts of each of {len(kinds)} kinds, at most {workload.tokens} tokens "
            f"each, greedy, `eager`; means over kinds. 'Auto / best': of the fixed draft that is fastest for that kind "
            f"of prompts, found afterwards; the least is {least:.2f}.",
            f"{VIRTUAL_CLOCK} A level takes as long as the table says, whatever drafts it.",
            "The choice falls before the first answer, from figures that training noted and the link's delays. Drafts "
            "run none of the target's layers.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "least_ratio": least,
            "places": [_result(place) for place in places],
        },
        faults=[
            fault
            for kind in kinds
            for fault in faults_of([runs[kind] for place in places for runs in place.runs.values()])
        ],
    )


def _rows(place: Place) -> Iterator[list[str]]:
    worst = min(place.ratios, key=place.ratio)
    for draft in sorted(place.runs, key=place.mean, reverse=True):
        is_auto = draft == place.taken
        yield [
            place.link,
            f"{1000 * place.level:g} ms",
            f"**{draft} (auto)**" if is_auto else draft,
            *(f"{place.speed(draft, kind):.0f}" for kind in place.ratios),
            f"{place.mean(draft):.1f}",
            f"{place.ratio(worst):.2f} ({worst})" if is_auto else "",
        ]


def _result(place: Place) -> dict[str, Any]:
    return {
        "link": place.link,
        "level_seconds": place.level,
        "taken": place.taken,
        "best": place.best,
        "ratios": place.ratios,
        "tokens_per_second": {
            draft: {kind: place.speed(draft, kind) for kind in runs} for draft, runs in place.runs.items()
        },
    }
