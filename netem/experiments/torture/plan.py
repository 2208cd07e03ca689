"""What is asked and how it is cut, drawn from a seed. Pure: knows no links, servers or clocks."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from common.protocol.sampling import Sampling
from netem.experiments.exactness import Reference

LONGEST = 40  # tokens of an answer
_MOST_CUTS = 5
_HESITATION = 0.1  # seconds, at most, from a cut's token to the cut


class Kind(StrEnum):
    RESET = "reset"  # both ends are told that the connection broke
    BLACKHOLE = "blackhole"  # nothing comes through for a while
    MOVE = "move"  # the address changes, what comes from the old one is lost
    KILL = "kill"  # the server dies; another process takes its place


_WEIGHTS = {Kind.RESET: 10, Kind.BLACKHOLE: 9, Kind.MOVE: 10, Kind.KILL: 1}
"""A killed server takes all answers with it that are being made."""

_SECONDS = {Kind.RESET: (0.0, 0.0), Kind.BLACKHOLE: (0.5, 3.0), Kind.MOVE: (0.0, 0.0), Kind.KILL: (0.0, 2.0)}
"""For how long the link is cut, or the server away at least."""


@dataclass(frozen=True, slots=True)
class Question:
    rule: str
    sampling: Sampling
    reference: Reference


@dataclass(frozen=True, slots=True)
class Cut:
    """Comes `delay` seconds after `tokens` of the answer are final, and lasts `seconds`."""

    kind: Kind
    tokens: int
    delay: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Generation:
    """An answer to question number `question`, cut in this order."""

    index: int
    question: int
    cuts: tuple[Cut, ...]


def draw_generation(seed: int, index: int, lengths: Sequence[int], *, may_kill: bool) -> Generation:
    """The same for the same arguments. Questions take turns; `lengths` are those of their answers."""
    question = index % len(lengths)
    dice = random.Random(f"{seed} {index}")
    kinds = [kind for kind in Kind if may_kill or kind is not Kind.KILL]
    drawn = dice.choices(kinds, [_WEIGHTS[kind] for kind in kinds], k=dice.randint(1, _MOST_CUTS))
    at = sorted(dice.randrange(lengths[question]) for _ in drawn)
    cuts = (
        Cut(kind, tokens, dice.uniform(0.0, _HESITATION), dice.uniform(*_SECONDS[kind]))
        for kind, tokens in zip(drawn, at, strict=True)
    )
    return Generation(index, question, tuple(cuts))
