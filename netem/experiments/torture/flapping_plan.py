"""The links of `flapping`, drawn from a seed. Pure: knows no servers and no clock."""

import random
from dataclasses import dataclass
from enum import StrEnum

from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile

UP_S, DOWN_S = (0.2, 2.0), (0.2, 2.0)
WAY_MS = (10.0, 300.0)
_CONTACTS = 400
"""Drawn for each link, which then repeats them."""


class Cut(StrEnum):
    """What happens to connections when their link goes down."""

    BREAK = "break"  # both ends know at once
    LATE = "late"  # the client knows at once, the server when the link is back
    SILENT = "silent"  # nobody is told: what was sent is held back and comes late


@dataclass(frozen=True, slots=True)
class Flap:
    """An answer to question number `question`, and the link that it is asked over."""

    index: int
    question: int
    cut: Cut
    link: LinkProfile

    @property
    def round_trip_ms(self) -> float:
        return self.link.up.delay_ms + self.link.down.delay_ms


def draw_flap(seed: int, index: int, questions: int, cut: Cut) -> Flap:
    """The same for the same arguments. Questions take turns."""
    dice = random.Random(f"flap {seed} {index}")
    way = Direction(delay_ms=dice.uniform(*WAY_MS))
    gaps, at_s = list[tuple[float, float]](), 0.0
    for _ in range(_CONTACTS):
        down_s = at_s + dice.uniform(*UP_S)
        at_s = down_s + dice.uniform(*DOWN_S)
        gaps.append((down_s, at_s))
    link = LinkProfile("flapping", "up for moments", way, way, Outages(tuple(gaps), at_s), seed * 1_000_003 + index)
    return Flap(index, index % questions, cut, link)
