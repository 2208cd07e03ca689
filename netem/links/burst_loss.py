"""Packets lost in bursts by the Gilbert-Elliott model (Gilbert 1960, Elliott 1963): a chain of a good and a bad state.

Pure: the random source is an argument. Knows no other fault.
"""

import math
import random
from dataclasses import dataclass

from common.protocol.errors import MisuseError


@dataclass(frozen=True)
class Bursts:
    """Probabilities, 0 to 1.

    to_bad (p), to_good (r): at each packet, that a good link turns bad and a bad one good. loss_bad, loss_good: that a
    packet is lost in that state. Raises MisuseError for a value that is no probability, for a bad state that never
    ends, and where every packet is lost.
    """

    to_bad: float
    to_good: float
    loss_bad: float
    loss_good: float

    def __post_init__(self) -> None:
        for probability in (self.to_bad, self.to_good, self.loss_bad, self.loss_good):
            if not (math.isfinite(probability) and 0 <= probability <= 1):
                raise MisuseError(f"{probability} is no probability of bursty loss: give 0 to 1")
        if self.to_good == 0:
            raise MisuseError("bursty loss needs a way back from bad to good: give to_good more than 0")
        if self.mean_loss >= 1:
            raise MisuseError("bursty loss that takes every packet leaves no link: give loss_good less than 1")

    @property
    def mean_loss(self) -> float:
        """The share of packets that is lost in the long run."""
        return self._bad_share * self.loss_bad + (1 - self._bad_share) * self.loss_good

    @property
    def covariance(self) -> float:
        """Of a packet's loss with that of a later one, summed over all later ones."""
        stays = 1 - self.to_bad - self.to_good  # what is left of a state's excess after one packet
        of_states = self._bad_share * (1 - self._bad_share) * (self.loss_bad - self.loss_good) ** 2
        return of_states * stays / (1 - stays)

    @property
    def _bad_share(self) -> float:
        """The share of packets in the bad state."""
        return self.to_bad / (self.to_bad + self.to_good)


class BurstLoss:
    """Begins in the good state."""

    def __init__(self, bursts: Bursts, draws: random.Random) -> None:
        self._bursts = bursts
        self._draws = draws
        self._is_bad = False

    def takes(self) -> bool:
        """Whether the next packet is lost; call it once for each packet."""
        bursts, draws = self._bursts, self._draws
        turns = draws.random() < (bursts.to_good if self._is_bad else bursts.to_bad)
        self._is_bad ^= turns
        return draws.random() < (bursts.loss_bad if self._is_bad else bursts.loss_good)
