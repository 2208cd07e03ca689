"""Verdicts on answers, and what makes a run of the experiment invalid."""

from dataclasses import replace

import pytest

from client.answer import Answer
from client.stats import Stats
from netem.experiments.conformance.measure import Case, CaseRun, SystemRun, make_report, verdict
from tests.common.sampling.test_grammar import END, TOKENIZER

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
STATS = Stats(9, 2.0, 4.5, 0.1, 3.0, 3, 0, 0, 0.0, 0, 0, 0, "none", "greedy")


def answer(text: str, reason: str = "stop") -> Answer:
    return Answer((*TOKENIZER(text, add_special_tokens=False)["input_ids"], END), reason, STATS)


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ('{"a": 1}', "stop", "valid"),
        ('{"a": "1"}', "stop", "invalid"),
        ('{"a": 1', "stop", "invalid"),
        ('{"a": 1', "length", "cut"),
    ],
)
def test_a_verdict_is_an_independent_librarys(text, reason, said):
    assert verdict(answer(text, reason), SCHEMA, TOKENIZER) == said


def test_a_run_is_valid_if_all_finished_answers_fit_and_no_drafter_changes_any():
    cases = [Case(SCHEMA, [1])] * 3
    asked = CaseRun([answer('{"a": 3}')], [answer("free")])
    right = SystemRun(asked, CaseRun([answer('{"a": 1}'), answer('{"a": 2', "length")], [answer("free")]))
    faster = replace(answer("free"), stats=replace(STATS, seconds=1.0))
    slower = replace(right, asked=replace(asked, free=[faster]))
    report = make_report({"none": right, "other": slower}, cases, TOKENIZER)
    assert report.faults == []
    assert report.rows[0][1:6] == ["3", "2", "0", "1", "3"]
    assert [row[-2:] for row in report.rows] == [["1.00", "1.00"], ["0.50", "1.00"]]
    wrong = SystemRun(asked, CaseRun([answer('{"b": 1}'), answer('{"a": 2', "length")], [answer("free")]))
    faults = make_report({"none": right, "other": wrong}, cases, TOKENIZER).faults
    assert len(faults) == 2
    assert "1 finished answers of other do not fit" in faults[0]
    assert "1 answers of other differ" in faults[1]
