"""netem.links.profile: impossible links are refused with a reason."""

import math

import pytest

from common.protocol.errors import MisuseError
from netem.links.burst_loss import Bursts
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.trace import Trace


@pytest.mark.parametrize("rate", [0, -1, math.inf, math.nan])
def test_a_rate_is_finite_and_positive(rate: float) -> None:
    with pytest.raises(MisuseError, match="rate"):
        Direction(rate)


@pytest.mark.parametrize("duration", [-0.1, math.inf, math.nan])
def test_delay_and_jitter_are_finite_and_not_negative(duration: float) -> None:
    with pytest.raises(MisuseError, match="a delay of"):
        Direction(1e6, delay_ms=duration)
    with pytest.raises(MisuseError, match="a jitter of"):
        Direction(1e6, jitter_ms=duration)


def test_jitter_needs_a_rate() -> None:
    with pytest.raises(MisuseError, match="jitter needs a rate"):
        Direction(delay_ms=21, jitter_ms=19)


def test_jitter_takes_a_trace_for_a_rate() -> None:
    assert Direction(delay_ms=21, jitter_ms=19, trace=Trace((1, 2))).mean_rate_bits_per_s == pytest.approx(12e6)


def test_a_rate_and_a_trace_exclude_each_other() -> None:
    with pytest.raises(MisuseError, match="not both"):
        Direction(1e6, trace=Trace((1,)))


@pytest.mark.parametrize("loss", [-0.1, 1.0, math.nan])
def test_loss_is_a_share_below_all(loss: float) -> None:
    with pytest.raises(MisuseError, match="a loss of"):
        Direction(1e6, loss=loss)


def test_a_queue_holds_something() -> None:
    with pytest.raises(MisuseError, match="a queue of"):
        Direction(1e6, queue_bytes=0)


def test_losses_add_up_to_what_is_lost_in_the_long_run() -> None:
    bursts = Bursts(to_bad=0.1, to_good=0.3, loss_bad=0.4, loss_good=0.0)
    assert Direction(1e6, loss=0.5, bursts=bursts).mean_loss == pytest.approx(1 - 0.5 * 0.9)


def test_a_profile_needs_a_name() -> None:
    with pytest.raises(MisuseError, match="name"):
        LinkProfile("", "nameless", Direction(), Direction())


def test_a_trace_that_the_outages_take_away_altogether_is_refused() -> None:
    plain, traced = Direction(1e6), Direction(trace=Trace((1000,)))
    gone = Outages(((0.0, 0.1),), 1.0)
    for up, down in ((plain, traced), (traced, plain)):
        with pytest.raises(MisuseError, match="every opportunity"):
            LinkProfile("test", "a link for a test", up, down, gone)
