"""What the answers of several systems to the same prompts say together. Pure; knows no system by name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from client.answer import Answer
from client.stats import Stats, combined, per
from common.stated_costs import overrun_faults, overrun_share

Answers = Mapping[str, Sequence[Answer]]
"""Each system's answers, in the order of the prompts; the first system is what the others are held against."""


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """One system beside the first. Both ratios are of the combined stats, so they can be read off a table of them."""

    stats: Stats
    speed_up: float  # in tokens per second
    ttft_ratio: float
    overrun_passes: float  # the share of its server's passes that took longer than their stated cost
    overrun_levels: float  # the same of its drafted levels

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.stats.as_dict(),
            "speed_up": self.speed_up,
            "ttft_ratio": self.ttft_ratio,
            "overrun_passes": self.overrun_passes,
            "overrun_levels": self.overrun_levels,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    systems: Mapping[str, ComparedSystem]
    identical: bool  # every system answered every prompt with the same tokens

    @property
    def overruns(self) -> list[str]:
        """Why its speeds do not count, if so."""
        return overrun_faults({name: compared.overrun_passes for name, compared in self.systems.items()})

    def as_dict(self) -> dict[str, Any]:
        return {
            "systems": {name: compared.as_dict() for name, compared in self.systems.items()},
            "identical": self.identical,
        }


def compare(answers: Answers, counters: Mapping[str, Mapping[str, Any]]) -> Comparison:
    """`counters` are what each system's own server counted."""
    stats = {name: combined([answer.stats for answer in given]) for name, given in answers.items()}
    reference = next(iter(stats.values()))
    systems = {
        name: ComparedSystem(
            stats=own,
            speed_up=per(own.tokens_per_second, reference.tokens_per_second),
            ttft_ratio=per(own.ttft_seconds, reference.ttft_seconds),
            overrun_passes=overrun_share(counters[name]),
            overrun_levels=per(
                sum(answer.overrun_levels for answer in answers[name]), sum(answer.levels for answer in answers[name])
            ),
        )
        for name, own in stats.items()
    }
    return Comparison(systems, is_identical(answers.values()))


def is_identical(runs: Iterable[Sequence[Answer]]) -> bool:
    """Whether the runs answered their prompts, the same in all, with the same tokens."""
    return len({tuple(answer.tokens for answer in run) for run in runs}) == 1


def rotations(systems: Sequence[str], prompts: int) -> Iterator[tuple[str, ...]]:
    """The order of the systems for each prompt, so that none always comes first."""
    for index in range(prompts):
        first = index % len(systems)
        yield (*systems[first:], *systems[:first])
