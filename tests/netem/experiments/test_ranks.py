"""The report of `ranks`: an answer or a draft state that is not that of one process makes the run invalid."""

from dataclasses import replace

import pytest
import torch

from client.answer import Answer
from client.stats import Stats
from netem.experiments.dealt_prompts import number_categories
from netem.experiments.one_device.prompts import CATEGORIES
from netem.experiments.ranks import PROMPTS, RULES, SYSTEMS, Measured, make_report, rule_of

STATS = Stats(tokens=4, seconds=1.0, ttft_seconds=0.1, accept_length=2.0, passes=2, draft="moa", rule="greedy")
ONE = Measured(
    [Answer((1, 2, number, 4), "length", STATS) for number in range(len(SYSTEMS) * len(RULES))],
    {"moa, N = 0, lsa": torch.tensor([[1.0, -4.0]])},
    1000,
    100,
)


def test_what_is_equal_is_valid() -> None:
    report = make_report(ONE, replace(ONE, weights_bytes=500))
    assert report.faults == []
    assert report.rows[0] == ["moa, N = 0", "patient", "greedy", "1", "1", "2.00"]
    assert "0.50 of the weights and 1.00 of K/V" in report.remarks[-1]


def test_another_answer_is_a_fault() -> None:
    others = [replace(ONE.answers[0], tokens=(1, 2, 3, 5)), *ONE.answers[1:]]
    report = make_report(ONE, replace(ONE, answers=others))
    assert report.faults == ["1 answers differ from those of one process"]
    assert report.rows[0][-2] == "0"


def test_other_draft_state_is_a_fault() -> None:
    report = make_report(ONE, replace(ONE, states={"moa, N = 0, lsa": torch.tensor([[1.0, -4.001]])}))
    assert len(report.faults) == 1
    assert report.faults[0].startswith("draft state differs by 0.00025")


@pytest.mark.parametrize("broken_depth", [0, 1])
def test_draft_state_that_is_no_number_is_a_fault(broken_depth: int) -> None:
    states = {f"moa, N = {depth}, lsa": torch.tensor([[1.0, -4.0]]) for depth in (0, 1)}
    broken = states | {f"moa, N = {broken_depth}, lsa": torch.tensor([[1.0, torch.nan]])}
    report = make_report(replace(ONE, states=states), replace(ONE, states=broken))
    assert report.faults == ["draft state differs by nan of its largest number"]


def test_every_system_answers_prompts_of_all_categories_by_both_rules() -> None:
    count = PROMPTS // len(CATEGORIES)
    prompts = number_categories({name: [[index]] * count for index, name in enumerate(CATEGORIES)})
    for index in range(len(SYSTEMS)):
        asked = {(rule_of(prompt.number), prompt.tokens[0]) for prompt in prompts[index :: len(SYSTEMS)]}
        assert asked == {(rule, category) for rule in RULES for category in range(len(CATEGORIES))}
