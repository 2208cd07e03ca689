"""What makes a run of the experiment invalid, and what systems answer."""

from dataclasses import replace

from client.answer import Answer
from client.stats import Stats
from netem.experiments.catalogue import find_experiment
from netem.experiments.conformance import measure
from netem.experiments.conformance.measure import LOAD, QUICK_LOAD, SYSTEMS, make_report
from netem.experiments.conformance.runs import CaseRun, SystemRun
from tests.common.sampling.test_grammar import END, TOKENIZER

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
STATS = Stats(
    tokens=9,
    seconds=2.0,
    tokens_per_second=4.5,
    ttft_seconds=0.1,
    accept_length=3.0,
    passes=3,
    draft="none",
    rule="greedy",
)


NOTHING = CaseRun({}, {})


def answer(text: str, reason: str = "stop") -> Answer:
    return Answer((*TOKENIZER(text, add_special_tokens=False)["input_ids"], END), reason, STATS)


def made(text: str) -> CaseRun:
    return CaseRun({0: answer(text)}, {0: answer("free")})


def test_a_run_is_valid_if_all_finished_answers_fit_and_no_drafter_changes_any(monkeypatch):
    monkeypatch.setattr(measure, "make_schema", lambda number: SCHEMA)
    monkeypatch.setattr(measure, "make_question", lambda number: ("", SCHEMA))
    asked, forced = made('{"a": 3}'), made('{"a": 1}')
    cut = {**forced.constrained, 1: answer('{"a": 2', "length")}
    first = SystemRun(asked, replace(forced, constrained=cut))
    faster = replace(asked, free={0: replace(answer("free"), stats=replace(STATS, seconds=1.0))})
    runs = {"none": first, "other": replace(first, asked=faster), "part": SystemRun(NOTHING, made('{"a": 1}'))}
    report = make_report(runs, TOKENIZER)
    assert report.faults == []
    assert [row[1:6] for row in report.rows] == [["3", "2", "0", "1", "3"]] * 2 + [["1", "1", "0", "0", "1"]]
    assert [row[-2:] for row in report.rows[:2]] == [["1.00", "1.00"], ["0.50", "1.00"]]
    faults = make_report({"none": first, "other": SystemRun(made('{"b": 1}'), first.forced)}, TOKENIZER).faults
    assert len(faults) == 2
    assert "1 finished answers of other do not fit" in faults[0]
    assert "1 answers of other differ" in faults[1]


def test_an_answer_that_broke_off_makes_the_run_invalid(monkeypatch):
    monkeypatch.setattr(measure, "make_schema", lambda number: SCHEMA)
    broken = CaseRun({0: replace(answer('{"a": 1}'), failure="the stream ended")}, {})
    report = make_report({"none": SystemRun(NOTHING, broken)}, TOKENIZER)
    assert report.faults == ["none: an answer broke off: the stream ended"]


def test_every_system_answers_what_the_first_one_does_and_timed_ones_the_first_schemas():
    first = SYSTEMS[0]
    assert len({each.name for each in SYSTEMS}) == len(SYSTEMS)
    for load in (LOAD, QUICK_LOAD):
        numbers = range(load.schemas)
        assert numbers[first.schemas] == numbers
        for each in SYSTEMS:
            assert not each.is_timed or set(range(load.timed)) <= set(numbers[each.schemas]), each.name


def test_the_catalogue_counts_the_drafts_that_are_compared():
    drafts = {case.system.draft.name for case in SYSTEMS if case.system.draft is not None}
    assert len(drafts) == 4
    assert "the same for four drafts" in find_experiment("conformance").description
