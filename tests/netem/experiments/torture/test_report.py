"""What makes a tortured run invalid."""

from collections import Counter
from dataclasses import replace

import pytest

from netem.experiments.torture.fault_injector import BROKEN_OFF, Outcome, Torment
from netem.experiments.torture.plan import Generation, Kind
from netem.experiments.torture.report import make_report

HELD = {"sessions": 0, "leases": 0, "slots": 0, "tasks": 9}
WELL = Outcome(
    Generation(4, 0, ()), "greedy", "moa", "identical", "length", 0, 1, 9, {Kind.RESET: 2}, [(Kind.RESET, 0.25)]
)


def report(*outcomes: Outcome, planned: int | None = None, made=tuple(Kind), twice: int = 0, **held: int):
    torment = Torment((), None, made=Counter(made))  # type: ignore[arg-type]
    torment.outcomes.extend(outcomes)
    planned = len(outcomes) if planned is None else planned
    return make_report(torment, planned, {"held": HELD | held, "recomputed_tokens": twice}, {"held": HELD})


def test_a_run_in_which_all_went_well_is_valid():
    found = report(WELL, replace(WELL, rule="coupled", verdict="near-tie"))
    assert not found.faults
    assert [row[0] for row in found.rows] == ["greedy", "coupled", *map(str, Kind)]
    assert found.results["hits"]["reset"] == 4
    assert [each["generation"]["index"] for each in found.results["unlike"]] == [4]


@pytest.mark.parametrize(
    "outcome", [replace(WELL, verdict="different"), replace(WELL, verdict=BROKEN_OFF), replace(WELL, retracted=1)]
)
def test_an_answer_that_is_not_the_uninterrupted_one_is_a_fault(outcome):
    (fault,) = report(WELL, outcome).faults
    assert "answer 4 (greedy, moa)" in fault


@pytest.mark.parametrize("what", HELD)
def test_what_is_left_on_the_server_is_a_fault(what):
    (fault,) = report(WELL, **{what: HELD[what] + 1}).faults
    assert fault == f"1 {what} are left on the server"


def test_answers_that_were_not_begun_and_cuts_that_were_not_made_are_faults():
    assert report(WELL, planned=3).faults == ["2 answers were not begun in time"]
    made = [kind for kind in Kind if kind is not Kind.MOVE]
    assert report(*[WELL] * 200, made=made).faults == ["nothing was cut by 'move'"]
    assert not report(WELL, made=made).faults, "a short run may miss one"


def test_what_was_computed_twice_is_a_fault():
    assert report(WELL, twice=3).faults == ["3 committed positions went through the target twice"]
