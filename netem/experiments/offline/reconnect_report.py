"""The table and the plot of `reconnect`. It may not know how results were measured."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from client.link.offline import OfflineOptions
from client.stats import per
from netem.experiments.experiment import Report
from netem.experiments.offline.screen import OutageObservation
from netem.experiments.speed.costs import OVERHEADS, VIRTUAL_COSTS
from netem.links.delay import mean_delay_ms
from netem.links.profile import LinkProfile

HEADINGS = (
    "draft",
    "outage, s",
    "provisional",
    "survived",
    "share",
    "longest pause, ms",
    "repaired, ms",
    "repaired, round trips",
    "most",
    "new streams",
    "same text",
)


@dataclass(frozen=True, slots=True)
class OutageResult:
    """One outage of one answer. lasts: its seconds. streams: new ones after it. identical: to the answer without an
    outage."""

    draft: str
    lasts: float
    observed: OutageObservation
    streams: int
    identical: bool


Group = Sequence[OutageResult]


def make_report(
    results: Group, link: LinkProfile, prompts: int, moments: Sequence[int], offline: OfflineOptions, idle: str
) -> Report:
    groups = _grouped(results)
    trip = (mean_delay_ms(link.up) + mean_delay_ms(link.down)) / 1000
    different = sum(not each.identical for each in results)
    behind = ", ".join(map(str, moments))
    return Report(
        title=f"Provisional tokens that survive an outage in mid-answer, over {link.name}",
        headings=HEADINGS,
        rows=[_row(draft, lasts, group, trip) for (draft, lasts), group in groups.items()],
        remarks=(
            f"{prompts} held-out prompts for code; in each answer the link carries nothing from behind its first "
            f"{behind} tokens on, for so long; means over these, or the most. Virtual clock: the real conversation "
            f"with its link watch, its attempts to come back and its resumed session; server policy {idle}; at most "
            f"{offline.limit_tokens} tokens are written alone. A pass takes at least {VIRTUAL_COSTS['pass_ms']:g} ms "
            f"and {VIRTUAL_COSTS['token_ms']:g} ms per token, a drafted level {VIRTUAL_COSTS['draft_level_ms']:g} ms "
            f"and, for each target layer that the draft runs itself, that layer's share of a pass; {OVERHEADS}.",
            "'provisional': tokens on the screen, not judged, when the server was first heard again; 'survived': of "
            "these, what the target confirmed, all up to the first that it did not.",
            "'longest pause': of all outages, the longest time in which nothing new came to the screen, from the "
            "beginning of the outage until the answer was written to its end or the server was heard again.",
            f"'repaired': from the return of the link until what is shown is the target's, at {1000 * trip:.1f} ms a "
            "round trip. The link holds back what is sent in an outage and does not lose it; a new connection costs "
            "two round trips (its own, then the greeting for which gRPC waits), and the session one and a pass.",
        ),
        results={
            "link": {"name": link.name, "round_trip_ms": 1000 * trip},
            "stated_costs": VIRTUAL_COSTS,
            "offline": asdict(offline),
            "outages": [_as_dict(draft, lasts, group, trip) for (draft, lasts), group in groups.items()],
        },
        faults=[f"{different} answers differ from those without an outage, which must never happen"]
        if different
        else [],
    )


def _grouped(results: Group) -> dict[tuple[str, float], list[OutageResult]]:
    groups: dict[tuple[str, float], list[OutageResult]] = {}
    for draft in dict.fromkeys(each.draft for each in results):
        for each in results:
            if each.draft == draft:
                groups.setdefault((draft, each.lasts), []).append(each)
    return groups


def _mean(group: Group, figure: Callable[[OutageResult], float]) -> float:
    return fmean(map(figure, group))


def _offered(each: OutageResult) -> float:
    return each.observed.offered


def _survived(each: OutageResult) -> float:
    return each.observed.survived


def _repaired(each: OutageResult) -> float:
    return each.observed.repaired


def _share(group: Group) -> float:
    return per(_mean(group, _survived), _mean(group, _offered))


def _row(draft: str, lasts: float, group: Group, trip: float) -> list[str]:
    return [
        draft,
        f"{lasts:g}",
        f"{_mean(group, _offered):.0f}",
        f"{_mean(group, _survived):.0f}",
        f"{_share(group):.0%}",
        f"{1000 * max(each.observed.pause for each in group):.0f}",
        f"{1000 * _mean(group, _repaired):.0f}",
        f"{_mean(group, _repaired) / trip:.1f}",
        f"{max(map(_repaired, group)) / trip:.1f}",
        f"{_mean(group, lambda each: each.streams):.1f}",
        f"{sum(each.identical for each in group)} of {len(group)}",
    ]


def _as_dict(draft: str, lasts: float, group: Group, trip: float) -> dict[str, Any]:
    return {
        "draft": draft,
        "seconds": lasts,
        "answers": len(group),
        "provisional": _mean(group, _offered),
        "survived": _mean(group, _survived),
        "share": _share(group),
        "longest_pause_seconds": max(each.observed.pause for each in group),
        "repaired_seconds": _mean(group, _repaired),
        "repaired_round_trips": _mean(group, _repaired) / trip,
        "most_round_trips": max(map(_repaired, group)) / trip,
        "new_streams": _mean(group, lambda each: each.streams),
        "identical": sum(each.identical for each in group),
    }
