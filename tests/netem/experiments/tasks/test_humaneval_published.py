"""The published problems themselves, which are not ours to ship: OUTRIDER_HUMANEVAL names the file."""

import os
from pathlib import Path

import pytest

from netem.experiments.tasks.grading import Grades, grade
from netem.experiments.tasks.humaneval import HumanEvalProblem, chat_task, completion_task, read_problems
from netem.experiments.tasks.sandbox import ProgramOutcome, ProgramVerdict

FILE = os.environ.get("OUTRIDER_HUMANEVAL")

pytestmark = pytest.mark.skipif(FILE is None, reason="OUTRIDER_HUMANEVAL names no HumanEval.jsonl.gz")


@pytest.fixture(scope="module")
def problems() -> list[HumanEvalProblem]:
    found = read_problems(Path(str(FILE)))
    assert len(found) == 164
    return found


def others(grades: Grades, problems: list[HumanEvalProblem], outcome: ProgramOutcome) -> list[object]:
    """Names and verdicts of the problems that ended otherwise."""
    return [
        (problem.name, verdict)
        for problem, verdict in zip(problems, grades.verdicts, strict=True)
        if not (isinstance(verdict, ProgramVerdict) and verdict.outcome is outcome)
    ]


def test_every_solution_completes_its_head(problems: list[HumanEvalProblem]) -> None:
    grades = grade([(completion_task(each), each.solution) for each in problems], workers=2)
    assert others(grades, problems, ProgramOutcome.PASSED) == []


def test_every_solution_passes_as_a_chat_answer(problems: list[HumanEvalProblem]) -> None:
    answers = [(chat_task(each), f"```python\n{each.head}{each.solution}\n```") for each in problems]
    assert others(grade(answers, workers=2), problems, ProgramOutcome.PASSED) == []


def test_every_empty_body_fails(problems: list[HumanEvalProblem]) -> None:
    grades = grade([(completion_task(each), "    pass\n") for each in problems], workers=2)
    assert others(grades, problems, ProgramOutcome.FAILED) == []
