from dataclasses import replace
from pathlib import Path

import pytest

from common.draft_kinds import DRAFT_KINDS
from common.protocol.errors import MisuseError
from netem.experiments.one_device import ablation
from netem.experiments.one_device.ablation import Workload, make_ablation_rows, make_report
from netem.experiments.one_device.compared_drafts import ComparedDraft
from tests.netem.experiments.one_device.fake_answers import measured
from tests.netem.experiments.one_device.running import check, run_quick

NAMES = ("eagle", "ca", "lsa")


def test_each_row_is_held_against_the_one_before_and_the_first():
    drafts = [ComparedDraft(name, DRAFT_KINDS["moa"], None) for name in NAMES]
    answers = {
        name: {"code": [measured(accept_length, levels=4)] * 2}
        for name, accept_length in zip(NAMES, (1, 2, 4), strict=True)
    }
    report = make_report(make_ablation_rows(drafts, answers, layers=12, seed=0), {"code": 2}, max_new_tokens=9)
    check("ablation", report)
    assert [row[0] for row in report.rows] == list(NAMES)
    assert [row[2][:4] for row in report.rows] == ["", "2.00", "2.00"]
    assert [row[3][:4] for row in report.rows] == ["", "2.00", "4.00"]
    assert report.results["rows"]["lsa"]["accept_length_over_first"]["value"] == 4


def test_a_level_of_merged_drafts_costs_a_forward_of_each():
    alone = ComparedDraft("eagle", DRAFT_KINDS["eagle"], Path("eagle"))
    merged = replace(alone, name="both", beside=(ComparedDraft("other", DRAFT_KINDS["independent"], Path("other")),))
    answers = {each.name: {"code": [measured(2, levels=4)] * 2} for each in (alone, merged)}
    first, second = make_ablation_rows([alone, merged], answers, layers=12, seed=0)
    # Passes of 30 ms, with four levels of 5 ms and of twice that.
    assert first.score.speed_up.value / second.score.speed_up.value == pytest.approx(70 / 50)
    assert second.speed_over_before.value == pytest.approx(50 / 70)


async def test_tiny_drafts_are_rows_in_order(request_for, monkeypatch):
    monkeypatch.setattr(ablation, "QUICK", Workload(prompts=1, tokens=4))
    report = await run_quick(ablation, request_for("moa:1", "eagle"))
    assert [row[0] for row in report.rows] == ["moa, N=1", "eagle"]


async def test_one_row_is_no_ablation(request_for):
    with pytest.raises(MisuseError, match=r"at least two drafts; train them .* --draft eagle --draft ca"):
        await ablation.measure(request_for("eagle"), lambda doing, share: None)
