"""The faults of every answer of `torture`, drawn from a seed. Pure: knows no links, servers or clocks."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

REFERENCES_SHARE = 0.15
"""The share of a whole run that making the reference answers takes, roughly."""

_MOST_FAULTS = 5
_MOST_DELAY_S = 0.1


class FaultKind(StrEnum):
    RESET = "reset"  # both ends are told that the connection broke
    BLACKHOLE = "blackhole"  # nothing is delivered for a while
    MOVE = "move"  # the client's address changes; what comes from the old one is lost
    KILL = "kill"  # the server dies; another process takes its place


_WEIGHTS = {FaultKind.RESET: 10, FaultKind.BLACKHOLE: 9, FaultKind.MOVE: 10, FaultKind.KILL: 1}
"""A killed server breaks all answers that are being made."""

_DURATION_S = {
    FaultKind.RESET: (0.0, 0.0),
    FaultKind.BLACKHOLE: (0.5, 3.0),
    FaultKind.MOVE: (0.0, 0.0),
    FaultKind.KILL: (0.0, 2.0),
}
"""How long the link is cut, or the least time for which the server is away: from, to."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """It begins delay_s after `tokens` tokens of the answer are final, and lasts duration_s."""

    kind: FaultKind
    tokens: int
    delay_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Answer number `index`, to question number `question`, with its faults in order."""

    index: int
    question: int
    faults: tuple[InjectedFault, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "question": self.question,
            "cuts": [
                {"kind": each.kind, "tokens": each.tokens, "delay": each.delay_s, "seconds": each.duration_s}
                for each in self.faults
            ],
        }


def draw_fault_plan(seed: int, index: int, lengths: Sequence[int], *, may_kill: bool) -> FaultPlan:
    """The same for the same arguments. lengths: the answers' lengths in tokens by question; questions take turns."""
    question = index % len(lengths)
    dice = random.Random(f"{seed} {index}")
    kinds = [kind for kind in FaultKind if may_kill or kind is not FaultKind.KILL]
    drawn = dice.choices(kinds, [_WEIGHTS[kind] for kind in kinds], k=dice.randint(1, _MOST_FAULTS))
    at = sorted(dice.randrange(lengths[question]) for _ in drawn)
    faults = (
        InjectedFault(kind, tokens, dice.uniform(0.0, _MOST_DELAY_S), dice.uniform(*_DURATION_S[kind]))
        for kind, tokens in zip(drawn, at, strict=True)
    )
    return FaultPlan(index, question, tuple(faults))
