"""netem.links.calibrating.nominal: what profiles imply."""

import pytest

from netem.links.calibrating.nominal import chance_loss, median_rtt_ms, rtt_spread_ms
from netem.links.losses import losses_of
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import PROFILES, find_profile


def test_without_jitter_it_is_delays_and_transmissions() -> None:
    # 1000 bytes take 1 ms at 8 Mbit/s and 2 ms at 4 Mbit/s.
    link = LinkProfile("uneven", "for a test", Direction(8e6, 10), Direction(4e6, 30))
    assert median_rtt_ms(link, 1000) == pytest.approx(43)


def test_draws_below_zero_count_as_zero() -> None:
    four_g, five_g = (median_rtt_ms(find_profile(name), 0) for name in ("4g", "5g"))
    assert 42 < four_g < 45.5
    # Half of two draws of 10±10 ms lie above 20 ms; that negative ones become 0 lifts the rest a little.
    assert 20 < five_g < 22


def test_an_unlimited_link_takes_no_time() -> None:
    assert median_rtt_ms(find_profile("none"), 1500) == 0


def test_the_spread_of_both_ways_adds_up() -> None:
    assert rtt_spread_ms(LinkProfile("x", "", Direction(1e6, 50, 3), Direction(1e6, 50, 4))) == pytest.approx(5)


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.up.mean_loss])
def test_honest_losses_are_within_chance_and_chance_is_no_licence(name: str) -> None:
    up, packets = PROFILES[name].up, 2000
    losses = losses_of(up, seed=0, way="up")
    shares = [sum(any(loss.takes() for loss in losses) for _ in range(packets)) / packets for _ in range(50)]
    off = max(abs(share - up.mean_loss) for share in shares)
    assert off <= chance_loss(up, packets) < 5 * off


def test_losses_are_judged_the_more_closely_the_more_packets_are_sent() -> None:
    satellite = find_profile("satellite").up
    assert chance_loss(satellite, 160_000) < chance_loss(satellite, 10_000) / 3
    assert chance_loss(Direction(), 6000) == pytest.approx(3.3 / 6000, rel=0.01), "three of 6,000 may be lost"
