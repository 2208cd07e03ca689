"""Shares, counts and intervals; what the sandbox cannot do is nobody's failure."""

import threading

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.tasks.grading import Unjudged, grade, wilson
from netem.experiments.tasks.sandbox import ProgramOutcome, ProgramVerdict, SandboxError
from netem.experiments.tasks.tasks import Program, Task

TASK = Task("sum", "Add.", "code", lambda answer: [answer])


def as_the_answer_says(program: Program) -> ProgramVerdict:
    (answer,) = program
    if answer == "broken":
        raise SandboxError("the sandbox is full of water")
    return ProgramVerdict(ProgramOutcome(answer))


def test_answers_are_judged_in_the_sandbox() -> None:
    grades = grade([(TASK, "assert 1 + 1 == 2"), (TASK, "assert 1 + 1 == 3, 'no'"), (TASK, "pass")])
    passed = ProgramVerdict(ProgramOutcome.PASSED)
    assert grades.verdicts == (passed, ProgramVerdict(ProgramOutcome.FAILED, "AssertionError: no"), passed)
    assert grades.pass_at_1.value == pytest.approx(2 / 3)


def test_the_sandbox_failing_counts_nowhere() -> None:
    answers = ["passed", "broken", "failed", "timed out", "broken", "passed", "out of memory"]
    grades = grade([(TASK, answer) for answer in answers], judge=as_the_answer_says)
    assert grades.verdicts[1] == Unjudged("the sandbox is full of water")
    assert (grades.judged, grades.unjudged) == (5, 2)
    assert grades.pass_at_1 == wilson(2, 5)
    figures = grades.as_dict()
    assert figures["outcomes"] == {"passed": 2, "failed": 1, "timed out": 1, "out of memory": 1}
    assert figures["pass_at_1"]["value"] == 0.4


def test_without_a_single_verdict_there_is_no_share() -> None:
    with pytest.raises(SandboxError, match="no answer could be judged: the sandbox is full of water"):
        grade([(TASK, "broken")] * 2, judge=as_the_answer_says)
    with pytest.raises(MisuseError, match="needs answers"):
        grade([])


def test_as_many_at_once_as_there_are_workers() -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(_: Program) -> ProgramVerdict:
        together.wait()
        return ProgramVerdict(ProgramOutcome.PASSED)

    assert grade([(TASK, "")] * 6, workers=3, judge=meet).judged == 6


# By hand from Wilson's formula with z = 1.959964.
@pytest.mark.parametrize(
    ("passed", "judged", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (82, 164, 0.4244, 0.5756)]
)
def test_intervals(passed: int, judged: int, low: float, high: float) -> None:
    estimate = wilson(passed, judged)
    assert estimate.value == passed / judged
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_intervals_contain_their_share_and_end_at_0_and_1() -> None:
    for judged in range(1, 300):
        none, every = wilson(0, judged), wilson(judged, judged)
        assert 0 == none.low < none.high < 1
        assert 0 < every.low < every.high == 1
