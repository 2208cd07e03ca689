"""netem.links.generate: traces that offer what their profile does."""

from itertools import pairwise

import pytest

from common.protocol.errors import MisuseError
from netem.links.generate import traces_of
from netem.links.profiles import find_profile


def test_a_steady_link_offers_its_rate() -> None:
    up, down = traces_of(find_profile("lte-asymmetric"), seconds=10)
    assert up.mean_rate_bits_per_s == pytest.approx(40e6, rel=0.001)
    assert down.mean_rate_bits_per_s == pytest.approx(38e6, rel=0.001)


def test_a_tunnel_leaves_nothing_for_its_30_seconds() -> None:
    up, _ = traces_of(find_profile("tunnel"), seconds=100)
    assert not [moment for moment in up.opportunities_ms if 40_000 <= moment < 70_000]
    assert len(up.opportunities_ms) == pytest.approx(70 * 20e6 / 12_000, rel=0.001)


def test_a_trace_that_ends_in_a_tunnel_repeats_with_it() -> None:
    up, _ = traces_of(find_profile("tunnel"), seconds=60)
    assert up.period_ms == 60_000
    assert [moment for moment in up.opportunities_ms if moment >= 40_000] == [60_000]


def test_handovers_leave_gaps_of_their_length() -> None:
    up, _ = traces_of(find_profile("handover-5g"), seconds=60)
    moments = up.opportunities_ms
    gaps = [later - earlier for earlier, later in pairwise(moments) if later - earlier > 5]
    assert 2 <= len(gaps) <= 5
    assert all(50 <= gap <= 151 for gap in gaps)


def test_a_drive_wanders_around_the_rate_and_its_seed_decides_how() -> None:
    profile = find_profile("lte-drive")
    up, down = traces_of(profile, 120, drive_seed=1)
    per_second = [
        sum(second * 1000 < moment <= second * 1000 + 1000 for moment in up.opportunities_ms[::10]) * 10
        for second in range(0, 120, 10)
    ]
    assert max(per_second) > 1.5 * min(per_second)
    assert up.mean_rate_bits_per_s == pytest.approx(26e6, rel=0.5)
    assert (up, down) == traces_of(profile, 120, drive_seed=1)
    assert up != down
    assert up != traces_of(profile, 120, drive_seed=2)[0]


def test_a_link_without_a_rate_has_no_trace() -> None:
    with pytest.raises(MisuseError, match="unlimited rate"):
        traces_of(find_profile("none"), seconds=1)
