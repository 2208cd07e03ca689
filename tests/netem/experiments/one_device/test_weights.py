"""`weights`: ratios against the weights as they are, on the same prompts."""

from pathlib import Path
from types import SimpleNamespace

from common.draft_kinds import DRAFT_KINDS
from common.weight_only.modes import AS_IS, INT4, INT8, MODES
from netem.experiments.one_device import weights
from netem.experiments.one_device.bench import TimedRounds
from netem.experiments.one_device.compared_drafts import ComparedDraft
from netem.experiments.one_device.prompts import Workload
from netem.experiments.one_device.weights import make_report, make_rows
from tests.netem.experiments.one_device.running import SMALL_TREE, run_quick

DRAFT = ComparedDraft("moa", DRAFT_KINDS["moa"], Path("moa"))


def answers(tokens: int, passes: int) -> dict[str, list[TimedRounds]]:
    rounds = SimpleNamespace(tokens=(0,) * (tokens + 1), passes=passes + 1)
    return {"code": [TimedRounds(rounds, 1.0)] * 2}  # type: ignore[arg-type]


def test_a_mode_is_judged_against_the_weights_as_they_are() -> None:
    given = {(DRAFT, AS_IS): answers(40, 10), (DRAFT, INT8): answers(40, 10), (DRAFT, INT4): answers(40, 16)}
    rows = make_rows(given, seed=0)
    assert [(row.weights, row.accept.value, row.ratio.value) for row in rows] == [
        (AS_IS, 4.0, 1.0),
        (INT8, 4.0, 1.0),
        (INT4, 2.5, 0.625),
    ]
    report = make_report(rows, {"code": 2}, 40)
    assert report.faults == ["int4 keeps 0.625 of the accept length"]
    assert report.results["mean_ratio"] == {INT8: 1.0, INT4: 0.625}


async def test_a_quick_run_has_a_row_for_each_draft_and_mode(request_for, monkeypatch) -> None:
    monkeypatch.setattr(weights, "QUICK", Workload(prompts=1, tokens=4))
    monkeypatch.setattr(weights, "PAPER_TREE", SMALL_TREE)
    report = await run_quick(weights, request_for("draft", "moa:1"))
    assert [row[1] for row in report.rows] == list(MODES) * 2
    assert {row[-1] for row in report.rows} == {"0"}
