from dataclasses import replace

from common.draft_kinds import DRAFT_KINDS
from netem.experiments.one_device import single_device
from netem.experiments.one_device.compared_drafts import ComparedDraft
from netem.experiments.one_device.single_device import Workload, make_report, make_rows
from tests.netem.experiments.one_device.fake_answers import measured
from tests.netem.experiments.one_device.running import check, run_quick

DRAFTS = [ComparedDraft(name, DRAFT_KINDS[name], None) for name in ("lookup", "eagle", "moa")]
SIZES = {"code": 2, "chat": 2}


def answers(accept_length, tokens=tuple(range(9))):
    return {name: [measured(accept_length, tokens)] * size for name, size in SIZES.items()}


def rows(**wrong):
    by_name = {"lookup": answers(1), "eagle": answers(2), "moa": answers(4)} | wrong
    return make_rows(DRAFTS, by_name, answers(1), layers=12, seed=0)


def test_rows_are_held_against_the_rival():
    report = make_report(rows(), SIZES, 9, 30.0, "NVIDIA X")
    check("single-device", report)
    assert report.faults == []
    assert report.headings[:4] == ("draft", "code", "chat", "mean")
    assert [row[5] for row in report.rows] == ["0.50 (0.50-0.50)", "1.00 (1.00-1.00)", "2.00 (2.00-2.00)"]
    assert report.rows[2][1] == "2.00x 4.00"
    assert report.results["drafts"]["moa"]["accept_length_against_eagle"]["value"] == 2
    assert any("Every answer is" in remark for remark in report.remarks)
    assert any("NVIDIA X, prompts included, where decoding one by one makes 30.0" in each for each in report.remarks)


def test_without_the_rival_there_are_no_ratios():
    alone = make_rows(DRAFTS[::2], {"lookup": answers(1), "moa": answers(4)}, answers(1), layers=12, seed=0)
    report = make_report(alone, SIZES, 9, 30.0, "NVIDIA X")
    check("single-device", report)
    assert [row[5] for row in report.rows] == ["", ""]


def test_answers_of_another_text_are_a_fault():
    report = make_report(rows(moa=answers(4, tokens=(*range(8), 99))), SIZES, 9, 30.0, "NVIDIA X")
    assert report.faults == ["4 of 4 answers with moa differ from plain decoding"]
    assert any("4 with moa" in remark for remark in report.remarks)
    few = [replace(row, different=1 if row.draft.name == "moa" else 0) for row in rows()]
    assert make_report(few, {"code": 100, "chat": 100}, 9, 30.0, "NVIDIA X").faults == []


async def test_tiny_drafts_are_measured(request_for, monkeypatch):
    monkeypatch.setattr(single_device, "QUICK", Workload(prompts=1, tokens=5))
    report = await run_quick(single_device, request_for("lookup", "draft", "eagle", "moa:1"))
    assert [row[0] for row in report.rows] == ["lookup", "draft", "eagle", "moa, N=1"]
    assert report.faults == []
    assert report.results["prompts"] == dict.fromkeys(("code", "math", "reading", "rewriting", "stories", "chat"), 1)
    accepted = {name: each["accept_length"]["value"] for name, each in report.results["drafts"].items()}
    # The target itself as a draft is always right; random drafts are not.
    assert accepted["draft"] > 2 > accepted["eagle"]
