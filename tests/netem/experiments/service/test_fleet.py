"""What makes a fleet's run invalid, and what its report says was done."""

from netem.experiments.service.fleet import UPDATE, make_report
from netem.experiments.service.replicas import CALM, KILLING, Phase

EVEN = [[8, 8, 8], [9, 8, 7], [7, 8, 9]]


def phases(**updating) -> dict[str, Phase]:
    return {
        CALM: Phase(answers=40, held=EVEN),
        KILLING: Phase(answers=90, moved=9),
        UPDATE: Phase(answers=30, **updating),
    }


def test_each_phase_is_a_row_and_the_kills_are_told():
    report = make_report(phases(moved=2), kills=5)
    assert not report.faults
    assert [row[2:] for row in report.rows] == [
        ["40", "0", "0", "0", "0"],
        ["90", "0", "0", "9", "0"],
        ["30", "0", "0", "2", "0"],
    ]
    assert report.results["kills"] == 5
    assert any("5 replicas were killed" in remark for remark in report.remarks)


def test_an_answer_that_an_update_fails_or_alters_is_a_fault():
    report = make_report(phases(different=1, failures=["the server is going away"]), kills=5)
    assert report.faults == [
        f"{UPDATE}: the server is going away",
        f"{UPDATE}: 1 different, 0 moved without cause",
    ]
