import json
import shutil
from dataclasses import replace
from subprocess import run

import pytest
import torch

from common.protocol.errors import MisuseError
from netem.experiments import provenance as origins
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import Report
from netem.experiments.provenance import provenance
from netem.experiments.report import prepare, write_report
from netem.experiments.table import on_terminal
from tests.families import make_checkpoint
from tests.pretended_gpu import pretended_gpu

REPORT = Report(
    title="A title",
    headings=("system", "tokens/s"),
    rows=[["ours", "1.5"], ["theirs", "0.5"]],
    remarks=("a remark",),
    results={"verdicts": {"identical": 3}, "restarts": 1, "moved": {20: 1}},
)
ROLLING = EXPERIMENTS["rolling"]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "draft", "llama", seed=2)
    (folder / "target" / "README.md").write_text("---\nlicense: none\n---\n# A small target\n\n## Measured\n")
    return provenance(3, {name: folder / name for name in ("target", "draft")})


def test_a_report_is_three_files(tmp_path, origin):
    out = tmp_path / "new"
    prepare(out)
    write_report(ROLLING, REPORT, origin, out)
    results = json.loads((out / "results.json").read_text())
    assert results["results"] == {"verdicts": {"identical": 3}, "restarts": 1, "moved": {"20": 1}}
    assert results["faults"] == []
    table = (out / "table.md").read_text()
    assert "| system | tokens/s |\n| --- | --- |\n| ours | 1.5 |\n| theirs | 0.5 |" in table
    assert "- a remark" in table
    assert "not valid" not in table
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_faults_come_first_as_they_are(tmp_path, origin):
    write_report(ROLLING, replace(REPORT, faults=("it rained", "it snowed")), origin, tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2:6] == ["**This run is not valid:**", "", "- it rained", "- it snowed"]
    assert json.loads((tmp_path / "results.json").read_text())["faults"] == ["it rained", "it snowed"]


def test_a_terminal_gets_the_whole_report_within_its_width(tmp_path, origin):
    write_report(ROLLING, replace(REPORT, faults=("it rained cats and dogs",)), origin, tmp_path)
    written = (tmp_path / "table.md").read_text()
    shown = on_terminal(written, 15)
    assert "- it rained\ncats and dogs\n" in shown
    assert "system: theirs\ntokens/s: 0.5\n" in shown
    assert max(map(len, shown.splitlines())) <= 15
    assert on_terminal(written, 1000).count("\n") == written.count("\n") - 1  # the line below the headings


def test_the_table_says_where_it_comes_from(tmp_path, origin):
    clean, changed = ({**origin, "commit": "c" * 40, "uncommitted_changes": changes} for changes in (False, True))
    write_report(ROLLING, REPORT, clean, tmp_path)
    table = (tmp_path / "table.md").read_text()
    assert "cccccccccccc, " in table
    assert f"A small target, fingerprint {origin['models']['target']['fingerprint'][:12]}" in table
    write_report(ROLLING, REPORT, changed, tmp_path)
    assert "cccccccccccc with uncommitted changes, " in (tmp_path / "table.md").read_text()


def test_what_would_spoil_the_end_is_found_before_the_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(MisuseError, match="file cannot be a folder"):
        prepare(tmp_path / "file")


def test_the_repository_of_somebody_else_is_not_where_a_result_comes_from(tmp_path, monkeypatch):
    run(["git", "init", "--quiet", str(tmp_path)], check=True)
    name = ["-c", "user.name=a", "-c", "user.email=b"]
    run(["git", "-C", str(tmp_path), *name, "commit", "--quiet", "--allow-empty", "--message", "c"], check=True)
    installed = tmp_path / ".venv" / "netem" / "provenance.py"
    installed.parent.mkdir(parents=True)
    shutil.copy(origins.__file__, installed)
    monkeypatch.setattr(origins, "__file__", str(installed))
    told = provenance(3, {})
    assert (told["commit"], told["uncommitted_changes"]) == ("", False)


def test_provenance_names_the_gpus_where_there_are_any(monkeypatch):
    assert "gpus" not in provenance(0, {})["machine"] or torch.cuda.is_available()
    with pretended_gpu(monkeypatch):
        assert provenance(0, {})["machine"]["gpus"] == ["a pretended GPU"]


def test_provenance_is_recorded_by_code(origin):
    assert origin["seed"] == 3
    assert set(origin["versions"]) == {"python", "outrider", "torch", "transformers", "grpcio", "numpy"}
    assert origin["machine"]["cores"] >= 1
    assert origin["machine"]["load_average_before"] >= 0
    assert origin["models"]["draft"]["name"] == "draft"
    assert origin["models"]["draft"]["fingerprint"] != origin["models"]["target"]["fingerprint"]
    assert origin["command"].startswith("outrider-lab")
