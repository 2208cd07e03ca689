"""The table of the ways to lose a packet, by the field of a direction that asks for it, and independent losses.

A new way is one line in the table. It knows each loss only by its constructor.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from netem.links.burst_loss import BurstLoss
from netem.links.profile import Direction


class Loss(Protocol):
    """Decides about packets in order; call it once for each packet."""

    def takes(self) -> bool: ...


class RandomLoss:
    """Each packet is lost with the same probability, independently of the others."""

    def __init__(self, probability: float, draws: random.Random) -> None:
        """probability: 0 to 1."""
        self._probability = probability
        self._draws = draws

    def takes(self) -> bool:
        """Whether the next packet is lost."""
        return self._draws.random() < self._probability


LOSSES: Mapping[str, Callable[[Any, random.Random], Loss]] = {"loss": RandomLoss, "bursts": BurstLoss}


def losses_of(direction: Direction, seed: int, way: str) -> list[Loss]:
    """The losses that a direction has, each with a random source of its own."""
    return [
        make_loss(parameters, random.Random(f"{seed}/{field}/{way}"))
        for field, make_loss in LOSSES.items()
        if (parameters := getattr(direction, field))
    ]
