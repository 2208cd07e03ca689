"""netem.links.calibrating.calibrate: links that keep what they promise, and one that is found not to.

A busy machine may be late, so the tolerance is wide; `outrider-lab calibrate` judges by a tenth.
"""

from dataclasses import replace

import pytest

from common.protocol.errors import MisuseError
from netem.links.calibrating.calibrate import MeasuringPlan, calibrate, measure
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile
from tests.netem.links.here import needs_tun

LINK = LinkProfile(
    "test", "a link for a test", Direction(8e6, 30, queue_bytes=60_000), Direction(4e6, 20, queue_bytes=40_000)
)


def short(profile: LinkProfile) -> MeasuringPlan:
    return MeasuringPlan(profile, seconds=0.3, longest_warm_s=0.1, stalls_watched=0)


@pytest.mark.parametrize(
    ("backend", "congestion"), [("proxy", None), pytest.param("tun", "reno", marks=needs_tun)], ids=["proxy", "tun"]
)
async def test_what_is_measured_is_what_was_asked_for(backend: str, congestion: str | None) -> None:
    measured = await measure(short(LINK), backend, congestion)
    assert (measured.profile, measured.backend) == ("test", backend)
    assert 50 <= measured.rtt.p50_ms < 100
    assert measured.nominal_rtt_ms == pytest.approx(50.2, abs=0.1)
    for way, nominal in ((measured.up, 8e6), (measured.down, 4e6)):
        assert way.nominal_rate == nominal
        assert way.rate == pytest.approx(nominal, rel=0.3)
        assert way.tcp_goodput < nominal * 1.3


@needs_tun
async def test_lost_packets_are_counted_in_the_direction_in_which_they_are() -> None:
    lossy = LinkProfile("lossy", "for a test", Direction(8e6, 5, loss=0.05), Direction(8e6, 5))
    measured = await measure(short(lossy), "tun", "reno")
    assert measured.up.loss == pytest.approx(0.05, abs=0.02)
    assert measured.down.loss == pytest.approx(0.0, abs=0.01)
    assert measured.congestion == "reno"


async def test_a_link_is_measured_between_its_outages() -> None:
    gone = replace(LINK, outages=Outages(((0.0, 1000.0),)))
    measured = await measure(short(gone), "proxy")
    assert measured.rtt.p50_ms < 1000


async def test_a_backend_that_it_cannot_measure_is_refused() -> None:
    with pytest.raises(MisuseError, match="calibration knows"):
        await calibrate(LINK, "tc")


def test_jitter_asks_for_more_pings() -> None:
    assert MeasuringPlan(find_profile("satellite")).pings == 20
    assert MeasuringPlan(find_profile("4g")).pings > 500
    assert MeasuringPlan.quick(find_profile("4g")).pings == 60
