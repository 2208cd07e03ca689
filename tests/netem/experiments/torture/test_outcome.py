"""What an answer under faults is judged by."""

from dataclasses import replace

import pytest

from client.drafting.repetition import STOPPED
from netem.experiments.references import Reference
from netem.experiments.torture.answer_record import FaultRecord
from netem.experiments.torture.outcome import AnswerOutcome, judged
from tests.client.demo.answers import answer

REFERENCE = Reference((1,), (2, 3), (1.0, 1.0))
FAILED = "the drafter failed (no state); the answer went on without it"


PORTAL = f"{STOPPED}; the server at gpu:7070 hung up at once"


@pytest.mark.parametrize(
    ("note", "is_faulty"), [("", False), (STOPPED, False), (PORTAL, False), (FAILED, True), (f"{FAILED}; more", True)]
)
def test_a_drafter_that_dies_in_mid_answer_is_a_fault_though_the_answer_is_right(note: str, is_faulty: bool) -> None:
    given = replace(answer((2, 3)), finish_reason="stop", note=note)
    outcome = judged(AnswerOutcome(4, "greedy", "moa"), REFERENCE, given, FaultRecord())
    assert (outcome.verdict, outcome.is_faulty) == ("identical", is_faulty)
    assert outcome.fault.endswith(note or given.finish_reason)
