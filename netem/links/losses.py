"""The table of ways to lose a packet, by the field of a direction that asks for it. A new one is a line here.

Knows each loss only by its constructor.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from netem.links.burst_loss import BurstLoss
from netem.links.profile import Direction
from netem.links.random_loss import RandomLoss


class Loss(Protocol):
    """Asked once for each packet."""

    def takes(self) -> bool: ...


LOSSES: Mapping[str, Callable[[Any, random.Random], Loss]] = {"loss": RandomLoss, "bursts": BurstLoss}


def losses_of(direction: Direction, seed: int, way: str) -> list[Loss]:
    """The losses that a direction asks for, each with draws of its own."""
    return [
        begin(asked, random.Random(f"{seed}/{field}/{way}"))
        for field, begin in LOSSES.items()
        if (asked := getattr(direction, field))
    ]
