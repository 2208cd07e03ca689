"""`outrider-lab run`: what was asked reaches the experiment, and what it reports ends in files and an exit code."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from common.programs.command_line import FAILURE
from common.protocol.errors import MisuseError
from netem.cli import run
from netem.commands.run import what_decides
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import DRAFT, MODELS, TARGET, Advance, Experiment, Report, Request
from netem.experiments.provenance import SourceTree
from netem.experiments.steps import UNFINISHED
from tests.netem.experiments import tiny as tiny_experiment
from tests.netem.experiments.tiny import RAINY_SEED

TINY = "tests.netem.experiments.tiny"
TINY_EXPERIMENT = Experiment(
    "tiny", "for tests", TINY, f"{TINY}:draw", f"{TINY}:models", options=(MODELS, DRAFT, TARGET)
)
ORIGIN: dict[str, Any] = {
    "versions": {"torch": "2"},
    "models": {},
    "inputs": {},
    "seed": 0,
    "machine": {"processor": "one", "cores": 2, "load_average_before": 0.0},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "tiny", TINY_EXPERIMENT)
    monkeypatch.setattr(sys, "argv", ["outrider-lab", "run", "tiny"])


def test_a_run_leaves_its_table_its_picture_and_its_results_with_their_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("netem.commands.run.monotonic", iter((10.0, 52.4)).__next__)
    run("tiny", out, quick=True, seed=3, models=tmp_path, draft=["moa", "eagle"], target=["large"])
    table = (out / "table.md").read_text()
    assert "| 3 | moa eagle | large |" in table
    assert capsys.readouterr().out.strip() == table.strip()
    written = json.loads((out / "results.json").read_text())
    assert written["results"] == {"quick": True}
    assert written["provenance"]["seed"] == 3
    assert written["provenance"]["seconds"] == 42
    assert written["provenance"]["command"] == "outrider-lab run tiny"
    assert set(written["provenance"]["models"]) == {"target"}
    assert (out / "plot.png").is_file()


@pytest.mark.parametrize("is_unchanged", [True, False])
def test_a_run_during_which_the_source_changed_does_not_pass_for_one_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_unchanged: bool
) -> None:
    """Some programs that it starts, and what is imported late, are of another."""
    monkeypatch.setattr("netem.experiments.provenance.source_tree", lambda: SourceTree("c0ffee", False))
    monkeypatch.setattr("netem.commands.run.was_unchanged_since", lambda commit: commit == "c0ffee" and is_unchanged)
    run("tiny", tmp_path, models=tmp_path)
    origin = json.loads((tmp_path / "results.json").read_text())["provenance"]
    assert (origin["commit"], origin["uncommitted_changes"]) == ("c0ffee", not is_unchanged)


def test_a_terminal_gets_the_table_within_its_width(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # which is a terminal to rich
    monkeypatch.setenv("COLUMNS", "40")
    run("tiny", tmp_path, seed=3, models=tmp_path, draft=["moa", "eagle"], target=["large"])
    shown = capsys.readouterr().out
    assert "seed  drafts     targets\n3     moa eagle  large\n" in shown
    assert max(map(len, shown.splitlines())) <= 40


def test_a_run_that_is_not_valid_is_written_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("tiny", tmp_path / "out", seed=RAINY_SEED, models=tmp_path)
    assert ended.value.code == FAILURE
    assert "the run is not valid" in capsys.readouterr().err
    assert "- it rained" in (tmp_path / "out" / "table.md").read_text()


def test_an_option_that_is_not_read_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="does not read --apps"):
        run("tiny", tmp_path / "out", apps=[tmp_path])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sources", "changed", "goes_on"),
    [
        (("c0ffee", "c0ffee"), {}, True),
        (("c0ffee", "c0ffee"), {"seed": 4}, False),
        (("c0ffee", "c0ffee"), {"quick": True}, False),
        (("c0ffee", "c0ffee"), {"draft": ["moa"]}, False),
        (("c0ffee", "decade"), {}, False),
        (("", ""), {}, False),
    ],
)
def test_a_run_that_was_broken_off_goes_on_behind_its_last_step_where_all_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: tuple[str, str], changed: dict[str, Any], goes_on: bool
) -> None:
    computed: list[str] = []
    is_first = True

    async def measure(request: Request, advance: Advance) -> Report:
        for name in ("one", "two", "three"):
            request.steps.once(name, partial(compute, name))
            if name == "two" and is_first:
                raise OSError("no space left on device")
        return await measure_tiny(request, advance)

    def compute(name: str) -> int:
        computed.append(name)
        return len(computed)

    measure_tiny = tiny_experiment.measure
    monkeypatch.setattr(tiny_experiment, "measure", measure)
    monkeypatch.setattr("netem.commands.run.computation", iter(sources).__next__)
    with pytest.raises(OSError, match="no space"):
        run("tiny", tmp_path, models=tmp_path)
    is_first = False
    run("tiny", tmp_path, models=tmp_path, **changed)
    assert computed[2:] == (["three"] if goes_on else ["one", "two", "three"])
    assert not (tmp_path / UNFINISHED).exists()
    assert (tmp_path / "plot.png").is_file()


@pytest.mark.parametrize("name", ["versions", "models", "inputs", "seed"])
def test_steps_of_other_models_data_or_versions_are_none_of_this_run(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("netem.commands.run.computation", lambda: "c0ffee")
    same, other = (decides({**ORIGIN, name: value}) for value in (ORIGIN[name], "another"))
    assert same == decides(ORIGIN)
    assert other != same


@pytest.mark.parametrize(
    ("machine", "is_same"),
    [
        ({"load_average_before": 3.0}, True),
        ({"processor": "another"}, False),
        ({"cores": 64}, False),
        ({"gpus": ["another"]}, False),
    ],
)
def test_steps_of_another_machine_are_none_of_this_run(
    monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], is_same: bool
) -> None:
    monkeypatch.setattr("netem.commands.run.computation", lambda: "c0ffee")
    other = decides({**ORIGIN, "machine": ORIGIN["machine"] | machine})
    assert (other == decides(ORIGIN)) == is_same


def decides(origin: dict[str, Any]) -> Any:
    return what_decides(TINY_EXPERIMENT, Request(0, quick=False), origin)
