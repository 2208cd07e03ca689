import json
from dataclasses import replace

import pytest

from netem.experiments.experiment import Report
from netem.experiments.provenance import provenance
from netem.experiments.report import write_report

REPORT = Report(
    title="A title",
    headings=("system", "tokens/s"),
    rows=[["ours", "1.5"], ["theirs", "0.5"]],
    remarks=("a remark",),
    results={"ours": 1.5},
    draw=lambda axes: axes.bar(["ours"], [1.5]),
)


@pytest.fixture(scope="module")
def origin():
    return provenance(seed=3)


def test_a_report_is_three_files(tmp_path, origin):
    write_report(REPORT, origin, tmp_path / "new")
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["results"] == {"ours": 1.5}
    assert results["valid"] is True
    table = (tmp_path / "new" / "table.md").read_text()
    assert "| system | tokens/s |\n| --- | --- |\n| ours | 1.5 |\n| theirs | 0.5 |" in table
    assert "- a remark" in table
    assert "Invalid" not in table
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_an_invalid_run_says_so_first(tmp_path, origin):
    write_report(replace(REPORT, valid=False), origin, tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines()[2].startswith("**Invalid run")


def test_provenance_is_recorded_by_code(origin):
    assert origin["seed"] == 3
    assert set(origin["versions"]) == {"python", "outrider", "torch", "transformers", "grpcio", "numpy"}
    assert origin["machine"]["cores"] >= 1
    assert origin["command"].startswith("outrider-lab")
