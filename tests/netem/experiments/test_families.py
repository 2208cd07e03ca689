from collections import Counter

import pytest

from common.models.errors import CheckpointError
from netem.experiments import families
from netem.experiments.families import FamilyOutcome, judge, make_report
from netem.experiments.family_checkpoints import FAMILIES


@pytest.mark.parametrize("name", ["gemma2", "stablelm"])
def test_streamed_sessions_of_a_family_answer_as_generate_does(name: str) -> None:
    outcome = judge(FAMILIES[name], seed=3)
    assert not outcome.refusal
    for draft in families.DRAFTS:
        assert outcome.tally[draft]["identical"] == families.PROMPTS
    near = outcome.tally[families.NEAR]
    assert near["passes"] < near["tokens"], "no drafted token was accepted, so that no tree was verified"


def test_a_refused_family_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CheckpointError("packed passes do not agree")

    monkeypatch.setattr(families, "load_virtual_server", refuse)
    report = make_report([judge(FAMILIES["llama"], seed=0)])
    assert report.rows == [["llama", "grouped heads", "refused", "", "", "", "", ""]]
    assert "llama is refused: packed passes do not agree" in report.remarks


def test_only_differences_are_faults() -> None:
    good = Counter(identical=2, tokens=8, passes=4)
    bad = Counter({"different": 1, "near-tie": 1, "tokens": 4, "passes": 4})
    report = make_report([FamilyOutcome(FAMILIES["phi"], tally={"lookup": good, "near": bad}, gaps=[0.5])])
    assert report.rows[1][3:] == ["2", "0", "1", "1", "1.00"]
    (fault,) = report.faults
    assert fault.startswith("1 answers of phi with near differ")
