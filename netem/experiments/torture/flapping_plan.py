"""The links of `flapping`, which carry for moments only, drawn from a seed. Pure: knows no servers and no clock."""

import random
from dataclasses import dataclass
from enum import StrEnum

from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile

UP_S, DOWN_S = (0.2, 2.0), (0.2, 2.0)
WAY_MS = (10.0, 300.0)
_CONTACTS = 400
"""The number of contacts drawn for each link, which then repeats them."""


class Disconnection(StrEnum):
    """What happens to connections when their link goes down."""

    BREAK = "break"  # connections break, and both ends know at once
    LATE = "late"  # connections break; the client knows at once, the server when the link is back
    SILENT = "silent"  # connections stay; what was sent is held back and delivered late


@dataclass(frozen=True, slots=True)
class FlappingLink:
    """The link of answer number `index`, to question number `question`."""

    index: int
    question: int
    disconnection: Disconnection
    profile: LinkProfile

    @property
    def round_trip_ms(self) -> float:
        return self.profile.up.delay_ms + self.profile.down.delay_ms


def draw_flapping_link(seed: int, index: int, questions: int, disconnection: Disconnection) -> FlappingLink:
    """The same for the same arguments. questions: how many there are; they take turns."""
    dice = random.Random(f"flap {seed} {index}")
    way = Direction(delay_ms=dice.uniform(*WAY_MS))
    gaps, at_s = list[tuple[float, float]](), 0.0
    for _ in range(_CONTACTS):
        down_s = at_s + dice.uniform(*UP_S)
        at_s = down_s + dice.uniform(*DOWN_S)
        gaps.append((down_s, at_s))
    profile = LinkProfile("flapping", "up for moments", way, way, Outages(tuple(gaps), at_s), seed * 1_000_003 + index)
    return FlappingLink(index, index % questions, disconnection, profile)
