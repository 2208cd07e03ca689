"""netem.links.calibrating.calibration: what counts as agreement."""

import json
from dataclasses import replace

import pytest

from netem.links.calibrating.calibration import Calibration, DirectionMeasured, RoundTrips

WAY = DirectionMeasured(
    rate=19.5e6, nominal_rate=20e6, tcp_goodput=5e6, loss=0.002, nominal_loss=0.001, chance_loss=0.0015
)
GOOD = Calibration("4g", "tun", "cubic", RoundTrips(100, 20.0, 45.0, 80.0), 43.5, WAY, WAY, 0)


def test_a_link_within_a_tenth_has_no_fault() -> None:
    assert GOOD.faults() == []
    assert GOOD.rtt_error == pytest.approx(45 / 43.5 - 1)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (replace(GOOD, rtt=RoundTrips(100, 20.0, 48.0, 80.0)), "the median round trip is +10% off what 4g promises"),
        (replace(GOOD, rtt=RoundTrips(100, 20.0, 30.0, 80.0)), "the median round trip is -31% off what 4g promises"),
        (replace(GOOD, up=replace(WAY, rate=25e6)), "the rate up is +25% off what 4g promises"),
        (replace(GOOD, down=replace(WAY, rate=10e6)), "the rate down is -50% off what 4g promises"),
        (replace(GOOD, up=replace(WAY, loss=0.5)), "the loss up is 50.00% where 4g promises 0.10%"),
        (replace(GOOD, down=replace(WAY, loss=0.0027)), "the loss down is 0.27% where 4g promises 0.10%"),
        (
            replace(GOOD, down=replace(WAY, loss=0.0, nominal_loss=0.03)),
            "the loss down is 0.00% where 4g promises 3.00%",
        ),
    ],
)
def test_every_measure_that_is_off_is_named(bad: Calibration, fault: str) -> None:
    assert bad.faults() == [fault]


def test_what_has_no_nominal_value_is_not_judged() -> None:
    free = DirectionMeasured(None, None, 1e9, 0.0, 0.0, 0.0)
    assert replace(GOOD, up=free, down=free, nominal_rtt_ms=0.1, rtt=RoundTrips(20, 0.1, 3.0, 9.0)).faults() == []


def test_a_loss_that_cannot_be_counted_is_not_judged() -> None:
    stalls = replace(WAY, loss=None, chance_loss=None)
    assert replace(GOOD, up=stalls, down=stalls).faults() == []


def test_round_trips_are_summarised() -> None:
    trips = RoundTrips.of([float(number) for number in range(101)])
    assert (trips.count, trips.p5_ms, trips.p50_ms, trips.p95_ms) == (101, 5.0, 50.0, 95.0)


def test_a_result_file_can_hold_it() -> None:
    stored = json.loads(json.dumps(GOOD.as_dict()))
    assert stored["up"]["rate"] == 19.5e6
    assert stored["rtt"]["p50_ms"] == 45.0
    assert stored["congestion"] == "cubic"
    assert stored["faults"] == []
