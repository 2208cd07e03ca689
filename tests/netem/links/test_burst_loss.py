"""netem.links.burst_loss: the Gilbert-Elliott model's long-run loss and the length of its bursts."""

import random
from itertools import pairwise
from statistics import pvariance

import pytest

from common.protocol.errors import MisuseError
from netem.links.burst_loss import BurstLoss, Bursts

LTE = Bursts(to_bad=0.006, to_good=0.33, loss_bad=0.5, loss_good=0.0005)


def test_the_share_of_lost_packets_is_the_mean_loss() -> None:
    loss = BurstLoss(LTE, random.Random(1))
    lost = sum(loss.takes() for _ in range(400_000))
    assert lost / 400_000 == pytest.approx(LTE.mean_loss, rel=0.05)


def test_bursts_last_as_long_as_the_bad_state() -> None:
    loss = BurstLoss(Bursts(to_bad=0.01, to_good=0.25, loss_bad=1.0, loss_good=0.0), random.Random(2))
    taken = [loss.takes() for _ in range(400_000)]
    bursts = sum(later and not earlier for earlier, later in pairwise(taken))
    assert sum(taken) / bursts == pytest.approx(1 / 0.25, rel=0.05)


@pytest.mark.parametrize("bursts", [LTE, Bursts(to_bad=0.9, to_good=0.8, loss_bad=0.9, loss_good=0.0)])
def test_losses_in_bursts_spread_by_what_they_have_in_common(bursts: Bursts) -> None:
    """The second turns at almost every packet, so that losses spread less than independent ones."""
    loss, packets = BurstLoss(bursts, random.Random(3)), 1000
    counts = [sum(loss.takes() for _ in range(packets)) for _ in range(600)]
    mean = bursts.mean_loss
    assert pvariance(counts) == pytest.approx(packets * (mean * (1 - mean) + 2 * bursts.covariance), rel=0.2)


@pytest.mark.parametrize("probabilities", [(1.1, 0.5, 0.5, 0.0), (0.1, -0.5, 0.5, 0.0), (0.1, 0.5, float("nan"), 0.0)])
def test_what_is_no_probability_is_refused(probabilities: tuple[float, float, float, float]) -> None:
    with pytest.raises(MisuseError, match="no probability"):
        Bursts(*probabilities)


@pytest.mark.parametrize("probabilities", [(0.1, 0.5, 1.0, 1.0), (0.0, 0.5, 0.0, 1.0)])
def test_some_packet_must_arrive(probabilities: tuple[float, float, float, float]) -> None:
    with pytest.raises(MisuseError, match="takes every packet"):
        Bursts(*probabilities)


def test_a_bad_state_must_end() -> None:
    with pytest.raises(MisuseError, match="way back"):
        Bursts(0.1, 0.0, 0.5, 0.0)
