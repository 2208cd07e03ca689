"""netem.links.losses: the table of losses with their random sources, and the share of independent losses."""

import random
from itertools import pairwise

import pytest

from netem.links.burst_loss import Bursts
from netem.links.losses import RandomLoss, losses_of
from netem.links.profile import Direction

BURSTS = Bursts(0.1, 0.5, 0.5, 0.01)


def verdicts(direction: Direction, index: int, seed: int = 0, way: str = "up") -> list[bool]:
    loss = losses_of(direction, seed, way)[index]
    return [loss.takes() for _ in range(300)]


def test_only_what_is_asked_for_is_there() -> None:
    assert losses_of(Direction(1e6), 0, "up") == []
    assert len(losses_of(Direction(1e6, loss=0.1, bursts=BURSTS), 0, "up")) == 2


def test_the_draws_of_one_loss_do_not_depend_on_another() -> None:
    together = Direction(1e6, loss=0.1, bursts=BURSTS)
    assert verdicts(together, 0) == verdicts(Direction(1e6, loss=0.1), 0)
    assert verdicts(together, 1) == verdicts(Direction(1e6, bursts=BURSTS), 0)


def test_the_seed_and_the_way_decide_the_draws() -> None:
    lossy = Direction(1e6, loss=0.3)
    assert verdicts(lossy, 0) == verdicts(lossy, 0)
    assert verdicts(lossy, 0, seed=1) != verdicts(lossy, 0)
    assert verdicts(lossy, 0, way="down") != verdicts(lossy, 0)


@pytest.mark.parametrize("probability", [0.001, 0.063, 0.5])
def test_the_share_of_lost_packets_is_the_probability(probability: float) -> None:
    loss = RandomLoss(probability, random.Random(1))
    lost = sum(loss.takes() for _ in range(200_000))
    assert lost / 200_000 == pytest.approx(probability, rel=0.1)


def test_one_loss_says_nothing_of_the_next() -> None:
    loss = RandomLoss(0.2, random.Random(2))
    taken = [loss.takes() for _ in range(100_000)]
    after_a_loss = [later for earlier, later in pairwise(taken) if earlier]
    assert sum(after_a_loss) / len(after_a_loss) == pytest.approx(0.2, rel=0.05)
