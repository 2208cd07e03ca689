"""What makes replicas that are killed under load invalid."""

from typing import Any

import pytest

from netem.experiments.report import Report
from netem.experiments.service.replica_clients import Phase, Reconnect
from netem.experiments.service.replica_report import CALM, KILLING, report_of

EVEN = [[8, 8, 8], [9, 8, 7], [7, 8, 9]]
MOVED = Reconnect("a", "b", "the connection was reset", had_cause=True)
SILENT = "the server was silent for 1.3 s"


def reported(held: list[list[int]] = EVEN, kills: int = 3, answers: int = 90, **killing: Any) -> Report:
    phases = {CALM: Phase(answers=40, held=held), KILLING: Phase(answers=answers, **killing)}
    return report_of("killed", phases, kills, 3, ("how it was done",), {"more": 1})


def test_answers_that_are_the_same_and_moved_only_with_their_replica_are_what_is_wanted() -> None:
    report = reported(reconnects=[MOVED] * 7)
    assert not report.faults
    assert [row[2:] for row in report.rows] == [["40", "0", "0", "0", "0", "0"], ["90", "0", "0", "7", "0", "0"]]
    assert (report.results["kills"], report.results["more"]) == (3, 1)
    assert "how it was done" in report.remarks
    assert "No client waited longer for an answer than 0 s." in report.remarks
    assert "'moved with their replica': streams that answers lost" in report.remarks[-1], "one may lose several"


@pytest.mark.parametrize(
    ("killing", "fault"),
    [
        ({"failures": ["the server is busy"]}, f"{KILLING}: the server is busy"),
        ({"different": 1}, f"{KILLING}: 1 answers differ"),
        ({"answers": 23}, f"{KILLING}: 23 answers for 24 clients"),
        ({"longest_wait_s": 61.0}, f"{KILLING}: a client waited 61 s for an answer; 60 s may be"),
        (
            {"reconnects": [Reconnect("a", "a", SILENT, had_cause=False)]},
            f"{KILLING}: answers whose replica was up lost their stream: 1 came back ({SILENT})",
        ),
        (
            {"reconnects": [MOVED, *[Reconnect("a", "b", SILENT, had_cause=False)] * 2]},
            f"{KILLING}: answers whose replica was up lost their stream: 2 moved ({SILENT})",
        ),
        ({"kills": 2}, "2 replicas were killed where 3 were to be: others did not serve again in time"),
        ({"held": [[12, 6, 6]]}, "the load of a replica differs by 50% from the mean; 20% may be"),
    ],
)
def test_whatever_else_happens_is_a_fault(killing: dict[str, Any], fault: str) -> None:
    assert reported(**killing).faults == [fault]
