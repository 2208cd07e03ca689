"""netem.links.profiles: the published values, and finding them."""

import pytest

from common.protocol.errors import MisuseError
from netem.links.burst_loss import Bursts
from netem.links.profiles import PROFILES, find_profile


@pytest.mark.parametrize(
    ("name", "megabits", "delay_ms", "jitter_ms", "loss"),
    [
        ("4g", 20, 21, 19, 0.001),
        ("5g", 100, 10, 10, 0.001),
        ("lte-drive", 26, 44.5, 0.11 * 44.5, 0),
        ("lte-flaky", 3, 67.5, 0.30 * 67.5, 0.063),
        ("urban-5g", 100, 20, 0, 0.001),
        ("cell-edge", 5, 120, 0, 0.01),
        ("congested", 1, 200, 0, 0.03),
        # The published 600 ms are a round trip.
        ("satellite", 10, 300, 0, 0.005),
        ("lan", 100, 0, 0, 0),
    ],
)
def test_the_table_holds_the_published_values(
    name: str, megabits: float, delay_ms: float, jitter_ms: float, loss: float
) -> None:
    profile = find_profile(name)
    assert profile.up == profile.down
    way = profile.up
    assert (way.rate_bits_per_s, way.delay_ms, way.loss) == (megabits * 1e6, delay_ms, loss)
    assert way.jitter_ms == pytest.approx(jitter_ms)


def test_the_asymmetric_link_has_the_published_queues() -> None:
    profile = find_profile("lte-asymmetric")
    assert (profile.down.rate_bits_per_s, profile.down.delay_ms, profile.down.queue_bytes) == (38e6, 10, 1000 * 1500)
    assert (profile.up.rate_bits_per_s, profile.up.delay_ms, profile.up.queue_bytes) == (40e6, 30, 350 * 1500)


def test_bursty_links_have_the_published_parameters_and_no_other_loss() -> None:
    for name, bursts in (
        ("lte-bursty", Bursts(0.006, 0.33, 0.5, 0.0005)),
        ("5g-bursty", Bursts(0.0039, 0.4, 0.5, 0.0002)),
    ):
        assert find_profile(name).up.bursts == find_profile(name).down.bursts == bursts
        assert find_profile(name).up.loss == 0


def test_no_link_is_free_of_everything() -> None:
    none = find_profile("none")
    assert (none.up.mean_rate_bits_per_s, none.up.delay_ms, none.up.mean_loss, none.up.queue_bytes) == (
        None,
        0,
        0,
        None,
    )


def test_every_queue_holds_a_round_trip_at_full_rate() -> None:
    for profile in PROFILES.values():
        for way in (profile.up, profile.down):
            if way.queue_bytes is not None and way.rate_bits_per_s is not None:
                assert way.queue_bytes * 8 / way.rate_bits_per_s >= (profile.up.delay_ms + profile.down.delay_ms) / 1000


def test_names_are_found_in_any_case_and_each_is_its_own() -> None:
    assert find_profile("4G") is PROFILES["4g"]
    assert all(name == profile.name for name, profile in PROFILES.items())


def test_a_misspelt_name_is_answered_with_near_matches() -> None:
    with pytest.raises(MisuseError, match="did you mean satellite"):
        find_profile("sattelite")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(MisuseError, match=f"choose one of {', '.join(PROFILES)}"):
        find_profile("zzz")
