"""What makes replicas that are killed under load invalid."""

import pytest

from netem.experiments.service.replicas import Phase, make_report, uneven

EVEN = [[8, 8, 8], [9, 8, 7], [7, 8, 9]]


def phases(**killing) -> dict[str, Phase]:
    return {"calm": Phase(answers=40, held=EVEN), "a replica killed every 20 s": Phase(answers=90, **killing)}


def test_answers_that_are_the_same_and_moved_only_with_their_replica_are_what_is_wanted():
    report = make_report(phases(moved=7), 3)
    assert not report.faults
    assert [row[2:] for row in report.rows] == [["40", "0", "0", "0", "0"], ["90", "0", "0", "7", "0"]]


@pytest.mark.parametrize(
    ("killing", "fault"),
    [
        ({"failures": ["the server is busy"]}, "a replica killed every 20 s: the server is busy"),
        ({"different": 1}, "a replica killed every 20 s: 1 different, 0 moved without cause"),
        ({"moved_without_cause": 2}, "a replica killed every 20 s: 0 different, 2 moved without cause"),
    ],
)
def test_whatever_else_happens_is_a_fault(killing, fault):
    assert make_report(phases(**killing), 3).faults == [fault]


def test_the_load_of_replicas_is_compared_with_the_mean_of_all():
    assert uneven(EVEN) == 0.0
    assert uneven([[12, 6, 6], [12, 6, 6]]) == pytest.approx(0.5)
    uneven_phases = {**phases(), "calm": Phase(held=[[12, 6, 6]])}
    assert make_report(uneven_phases, 3).faults == ["the load of a replica differs by 50% from the mean; 20% may be"]
