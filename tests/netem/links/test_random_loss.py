"""netem.links.random_loss: its share, and its independence."""

import random
from itertools import pairwise

import pytest

from netem.links.random_loss import RandomLoss


@pytest.mark.parametrize("chance", [0.001, 0.063, 0.5])
def test_the_share_of_lost_packets_is_the_chance(chance: float) -> None:
    loss = RandomLoss(chance, random.Random(1))
    lost = sum(loss.takes() for _ in range(200_000))
    assert lost / 200_000 == pytest.approx(chance, rel=0.1)


def test_one_loss_says_nothing_of_the_next() -> None:
    loss = RandomLoss(0.2, random.Random(2))
    taken = [loss.takes() for _ in range(100_000)]
    after_a_loss = [later for earlier, later in pairwise(taken) if earlier]
    assert sum(after_a_loss) / len(after_a_loss) == pytest.approx(0.2, rel=0.05)
