"""What makes a run with faults invalid."""

from collections import Counter
from dataclasses import replace

import pytest

from netem.experiments.torture.fault_injector import FaultedAnswer, FaultInjector
from netem.experiments.torture.outcome import BROKEN_OFF
from netem.experiments.torture.plan import FaultKind, FaultPlan
from netem.experiments.torture.report import make_report

HELD = {"sessions": 0, "leases": 0, "slots": 0, "tasks": 9}
WELL = FaultedAnswer(
    4,
    "greedy",
    "moa",
    "identical",
    "length",
    retracted=0,
    reconnects=1,
    plan=FaultPlan(4, 0, ()),
    hits={FaultKind.RESET: 2},
    waits=[(FaultKind.RESET, 0.25)],
)


def report(
    *outcomes: FaultedAnswer, planned: int | None = None, injected=tuple(FaultKind), twice: int = 0, **held: int
):
    injector = FaultInjector((), None, injected=Counter(injected))  # type: ignore[arg-type]
    injector.outcomes.extend(outcomes)
    planned = len(outcomes) if planned is None else planned
    return make_report(injector, planned, {"held": HELD | held, "recomputed_tokens": twice}, {"held": HELD})


def test_a_run_in_which_all_went_well_is_valid():
    found = report(WELL, replace(WELL, rule="coupled", verdict="near-tie"))
    assert not found.faults
    assert [row[0] for row in found.rows] == ["greedy", "coupled", *map(str, FaultKind)]
    assert found.results["hits"]["reset"] == 4
    assert [each["generation"]["index"] for each in found.results["unlike"]] == [4]


@pytest.mark.parametrize(
    "outcome", [replace(WELL, verdict="different"), replace(WELL, verdict=BROKEN_OFF), replace(WELL, retracted=1)]
)
def test_an_answer_that_is_not_the_uninterrupted_one_is_a_fault(outcome):
    (fault,) = report(WELL, outcome).faults
    assert "answer 4 (greedy, moa)" in fault


def test_what_is_left_is_said_to_be_the_last_servers():
    killed = [*FaultKind, FaultKind.KILL]
    (said,) = (remark for remark in report(WELL, injected=killed).remarks if "left at the end" in remark)
    assert said.startswith("Of the last of 3 servers, which alone can be asked: left at the end 0 sessions")


def test_answers_that_ended_before_their_cuts_are_counted():
    found = report(WELL, replace(WELL, hits={}), replace(WELL, hits={FaultKind.KILL: 0}))
    assert found.results["never_cut"] == 2
    assert "2 answers were never cut" in found.remarks[0]


@pytest.mark.parametrize("what", HELD)
def test_what_is_left_on_the_server_is_a_fault(what):
    (fault,) = report(WELL, **{what: HELD[what] + 1}).faults
    assert fault == f"1 {what} are left on the server"


def test_answers_that_were_not_begun_and_faults_that_were_not_injected_are_faults():
    assert report(WELL, planned=3).faults == ["2 answers were not begun in time"]
    injected = [kind for kind in FaultKind if kind is not FaultKind.MOVE]
    assert report(*[WELL] * 200, injected=injected).faults == ["nothing was cut by 'move'"]
    assert not report(WELL, injected=injected).faults, "a short run may miss one"


def test_what_was_computed_twice_is_a_fault():
    assert report(WELL, twice=3).faults == ["3 committed positions went through the target twice"]
