"""netem.links.profile: impossible links are refused with a reason."""

import math

import pytest

from common.protocol.errors import MisuseError
from netem.links.profile import Direction, LinkProfile


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


def test_a_profile_needs_a_name() -> None:
    with pytest.raises(MisuseError, match="name"):
        LinkProfile("", "nameless", Direction(), Direction())
