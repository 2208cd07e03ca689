"""netem.links.trace on a fake clock: Mahimahi's opportunities, wasted, shared, repeated and taken away."""

import math

import pytest

from common.protocol.errors import MisuseError
from netem.links.outages import Outages
from netem.links.trace import OPPORTUNITY_BYTES, Trace, TraceLine

UNEVEN = Trace((2, 2, 7, 10))


def test_each_opportunity_carries_1500_bytes_and_the_list_repeats() -> None:
    line = TraceLine(UNEVEN)
    sent_ms = [1000 * line.send(OPPORTUNITY_BYTES, 0.0) for _ in range(9)]
    assert sent_ms == pytest.approx([2, 2, 7, 10, 12, 12, 17, 20, 22])


def test_small_packets_share_an_opportunity_and_a_large_one_takes_several() -> None:
    line = TraceLine(UNEVEN)
    assert [1000 * line.send(700, 0.0) for _ in range(3)] == pytest.approx([2, 2, 2])
    assert 1000 * line.send(3000, 0.0) == pytest.approx(10)


def test_what_an_idle_link_does_not_use_is_wasted() -> None:
    line = TraceLine(UNEVEN)
    assert 1000 * line.send(100, 0.0) == pytest.approx(2)
    # The rest of that opportunity passed meanwhile.
    assert 1000 * line.send(1500, 0.0021) == pytest.approx(7)
    assert 1000 * line.send(1500, 0.5005) == pytest.approx(502)


@pytest.mark.parametrize("moment_ms", [2, 7, 10, 20, 10_000])
def test_an_opportunity_at_the_very_moment_is_used(moment_ms: int) -> None:
    assert 1000 * TraceLine(UNEVEN).send(1500, moment_ms / 1000) == pytest.approx(moment_ms)


def test_opportunities_in_an_outage_are_lost() -> None:
    line = TraceLine(UNEVEN, Outages(((0.006, 0.0115),)))
    assert [1000 * line.send(1500, 0.0) for _ in range(4)] == pytest.approx([2, 2, 12, 12])


def test_backlog_is_what_waits() -> None:
    line = TraceLine(UNEVEN)
    assert line.backlog_s(0.0) == 0.0
    for _ in range(4):
        line.send(1500, 0.0)
    assert line.backlog_s(0.004) == pytest.approx(0.006)


def test_the_mean_rate() -> None:
    assert UNEVEN.mean_rate_bits_per_s == pytest.approx(4 * 1500 * 8 / 0.010)


@pytest.mark.parametrize("moments", [(), (0, 0), (3, 2), (-1, 4), (1, 10**12 + 1), (10**400,)])
def test_impossible_traces_are_refused(moments: tuple[int, ...]) -> None:
    with pytest.raises(MisuseError, match="trace"):
        Trace(moments)


@pytest.mark.parametrize(
    ("moments", "outages"),
    [
        ((1000,), Outages(((0.0, 0.1),), 1.0)),
        ((60, 60, 125), Outages(((0.0, 0.01), (0.05, 0.07)), 0.125)),
        ((60, 120, 250), Outages(((0.0, 0.01), (0.05, 0.124)), 0.125)),
    ],
)
def test_a_trace_whose_every_opportunity_is_taken_away_is_refused(moments: tuple[int, ...], outages: Outages) -> None:
    with pytest.raises(MisuseError, match="every opportunity"):
        TraceLine(Trace(moments), outages)


def test_the_one_opportunity_that_outages_leave_is_found_however_many_rounds_on() -> None:
    # Every 7 ms one, and a link only in the first half millisecond of every second.
    line = TraceLine(Trace((7,)), Outages(((0.0005, 1.0),), 1.0))
    assert [line.send(1500, 0.0) for _ in range(3)] == pytest.approx([7, 14, 21])


def test_many_outages_in_a_row_are_no_recursion() -> None:
    gaps = tuple((second - 0.1, second + 0.1) for second in range(1, 5000))
    assert TraceLine(Trace((1000,)), Outages(gaps)).send(1500, 0.0) == 5000


def test_the_end_of_an_outage_that_rounds_to_the_opportunity_it_took_holds_nothing_forever() -> None:
    end_s = math.nextafter(0.043, 1)
    assert end_s * 1000 == 43
    assert TraceLine(Trace((43, 50)), Outages(((0.04, end_s),))).send(1500, 0.0) == pytest.approx(0.05)
