"""The systems that the demo compares, and what their answers say together. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from client.conversation import Answer
from client.policies import CLOUD, LOCKSTEP, STREAM, Policy
from client.stats import Stats, combined

REFERENCE = "cloud"
SYSTEMS: Mapping[str, Policy] = {REFERENCE: CLOUD, "lockstep": LOCKSTEP, "outrider": STREAM}

Answers = Mapping[str, Sequence[Answer]]
"""Each system's answers, in the order of the prompts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    systems: dict[str, Stats]
    identical: bool

    def speed_up(self, system: str) -> float:
        return self.systems[system].tokens_per_second / self.systems[REFERENCE].tokens_per_second

    def as_dict(self) -> dict[str, Any]:
        systems = {name: {**stats.as_dict(), "speed_up": self.speed_up(name)} for name, stats in self.systems.items()}
        return {"systems": systems, "identical": self.identical}


def compare(answers: Answers) -> Comparison:
    """`identical`: every system answered every prompt with the same tokens."""
    systems = {name: combined([answer.stats for answer in given]) for name, given in answers.items()}
    return Comparison(systems, len({tuple(answer.tokens for answer in given) for given in answers.values()}) == 1)


def rotations(systems: Sequence[str], prompts: int) -> Iterator[tuple[str, ...]]:
    """The order of the systems for each prompt, so that none always comes first."""
    for index in range(prompts):
        first = index % len(systems)
        yield (*systems[first:], *systems[:first])
