"""Speeds on the virtual clock beside those in real time: what a comparison is, its row, and when it is a fault.

May know answers and counters. It may not know how either side is run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from client.answer import Answer
from client.stats import combined, per
from common.counted import counted
from common.stated_costs import OVERRUN_LIMIT, overrun_share

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

WITHIN = 0.05
"""The share of the real speed that the virtual one may be off."""

LATE = (
    f"Late: was computed for longer on this machine than stated; above {OVERRUN_LIMIT:.0%}, in brackets, the real "
    "speed says nothing. A thread that wakes late counts as on time."
)


@dataclass(frozen=True, slots=True)
class ClockComparison:
    """One system's speed in tokens per second: on the virtual clock, and in each repetition in real time.

    costs: the factor on all stated costs. late_passes, late_levels: the shares that took longer than their stated cost
    in real time.
    """

    link: str
    clients: int
    costs: int
    system: str
    virtual: float
    real: Sequence[float]
    late_passes: float
    late_levels: float

    @property
    def ratio(self) -> float:
        return self.virtual / fmean(self.real)

    @property
    def counts(self) -> bool:
        """Whether the machine kept the stated costs, so that the comparison is meaningful."""
        return max(self.late_passes, self.late_levels) <= OVERRUN_LIMIT

    @property
    def row(self) -> list[str]:
        ratio = f"{self.ratio:.2f}"
        return [
            self.link,
            str(self.clients),
            f"x{self.costs}",
            self.system,
            f"{self.virtual:.1f}",
            f"{fmean(self.real):.1f}",
            f"{min(self.real):.1f} - {max(self.real):.1f}",
            ratio if self.counts else f"({ratio})",
            f"{self.late_passes:.1%}",
            f"{self.late_levels:.1%}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "real": list(self.real), "ratio": self.ratio, "counts": self.counts}


@dataclass(frozen=True, slots=True)
class Played:
    """What real time came to: speeds in tokens per second, one for each repetition, and the shares of late passes and
    of late levels."""

    speeds: Sequence[float]
    late_passes: float
    late_levels: float


def played(repetitions: Sequence[Sequence[Answer]], counters: Mapping[str, Any]) -> Played:
    """From the answers of each repetition, and the summary of their server, which drafts levels too."""
    answers = [answer for repetition in repetitions for answer in repetition]
    levels = sum(answer.levels for answer in answers) + int(counters["assisted_levels"])
    late = sum(answer.overrun_levels for answer in answers) + int(counters["overrun_levels"])
    speeds = [combined([answer.stats for answer in repetition]).tokens_per_second for repetition in repetitions]
    return Played(speeds, overrun_share(counters), per(late, levels))


def faults_of(compared: Sequence[ClockComparison]) -> list[str]:
    """Comparisons that are off although the machine kept their costs, and systems of which none counts."""
    return [
        f"{each.system} on {each.link} with {counted(each.clients, 'client')} is {each.ratio:.2f} times as fast on the "
        "virtual clock as in real time"
        for each in compared
        if each.counts and abs(each.ratio - 1) > WITHIN
    ] + [
        f"{name} never kept its costs, so nothing holds it against real time"
        for name in dict.fromkeys(each.system for each in compared)
        if not any(each.counts for each in compared if each.system == name)
    ]
