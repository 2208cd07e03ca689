"""Packets lost one by one, each with the same chance. Pure: the draws are seeded. Knows no other fault."""

import random


class RandomLoss:
    """Asked once for each packet."""

    def __init__(self, chance: float, draws: random.Random) -> None:
        self._chance = chance
        self._draws = draws

    def takes(self) -> bool:
        """Whether the next packet is lost."""
        return self._draws.random() < self._chance
