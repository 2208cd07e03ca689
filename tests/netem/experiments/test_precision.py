"""The report of `precision`: what differs is counted for each dtype, and is a fault where passes were exact."""

import pytest

from netem.experiments.precision import ComparedAnswers, make_report


@pytest.mark.parametrize(("mode", "is_fault"), [("exact", True), ("fast", False)])
def test_answers_that_differ_are_counted_and_are_a_fault_of_exact_passes(mode: str, is_fault: bool) -> None:
    compared = [
        ComparedAnswers("bfloat16", mode, "moa, N = 0", "eager", 1, answers=6, different=2, tokens=60, passes=20),
        ComparedAnswers("bfloat16", mode, "eagle", "patient", 8, answers=5, different=1, tokens=50, passes=20),
    ]
    report = make_report(compared, 11)
    assert report.rows[0] == ["bfloat16", mode, "moa, N = 0", "eager", "1", "6", "2", "3.00"]
    assert ["bfloat16", mode, "all", "", "", "11", "3", ""] in report.rows
    assert bool(report.faults) == is_fault
