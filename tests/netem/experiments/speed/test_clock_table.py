"""netem.experiments.speed.clock_table: what is made of both sides, and what is a fault."""

from dataclasses import replace

import pytest

from netem.experiments.speed.clock_table import ClockComparison, faults_of, played
from tests.client.demo.answers import answer, counted

KEPT = ClockComparison("4g", 1, 4, "eager", 100.0, [99.0, 101.0], late_passes=0.05, late_levels=0.05)


def test_late_levels_of_both_sides_count():
    real = [[answer((1, 2, 3, 4), seconds=2.0, levels=30, late=3)], [answer((1, 2, 3, 4), levels=10, late=0)]]
    counters = {**counted(passes=50, overrun=1), "assisted_levels": 60, "overrun_levels": 7}
    came_to = played(real, counters)
    assert came_to.speeds == [2.0, 4.0]
    assert came_to.late_levels == pytest.approx((3 + 7) / (30 + 10 + 60))
    assert came_to.late_passes == pytest.approx(1 / 50)


def test_a_comparison_counts_where_the_costs_were_kept():
    assert KEPT.counts
    assert KEPT.ratio == pytest.approx(1.0)
    assert KEPT.row[-3:] == ["1.00", "5.0%", "5.0%"]
    for late in (replace(KEPT, late_passes=0.051), replace(KEPT, late_levels=0.051)):
        assert not late.counts
        assert late.row[-3] == "(1.00)"


def test_what_counts_and_is_off_is_a_fault_and_so_is_a_system_that_never_counts():
    off, late = replace(KEPT, virtual=105.1), replace(KEPT, virtual=200.0, late_passes=0.2)
    assert faults_of([KEPT, late]) == []
    assert faults_of([replace(KEPT, virtual=95.1)]) == []
    assert faults_of([off]) == ["eager on 4g with 1 client is 1.05 times as fast on the virtual clock as in real time"]
    assert faults_of([late]) == ["eager never kept its costs, so nothing holds it against real time"]
