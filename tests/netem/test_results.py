"""`outrider-lab results`: made-up experiments are run once each, from one commit and one set of models."""

import json
import shlex
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.protocol.errors import MisuseError
from netem.commands import results
from netem.commands.results import make_results
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import DATA, Experiment, Request
from netem.experiments.inputs import inputs
from netem.experiments.kept_runs import KeptRun, Outside
from netem.experiments.provenance import SourceTree, identities, versions
from netem.experiments.report import FILES
from netem.experiments.steps import UNFINISHED
from tests.families import make_checkpoint

NAMES = ("first", "second", "third")
RUNS = tuple(KeptRun(name, name) for name in NAMES)
COMMIT, LATER = SourceTree("c0ffee", False), SourceTree("decade", False)


class Machine:
    """Replaces git, the processes and the machine's load."""

    def __init__(self, models: Path):
        self.models = models
        self.tree = COMMIT
        self.quiet = True
        self.launched: list[str] = []
        self.behaviour: dict[str, Callable[[], int]] = {}
        self.faults: dict[str, list[str]] = {}
        self.told: dict[str, Any] = {}
        self.meanwhile: Callable[[str], None] = lambda _: None

    def checkpoints(self, _: Request) -> dict[str, Path]:
        return {"target": self.models}

    def launch(self, arguments: Sequence[str], log: Path) -> int:
        name, out = arguments[0], Path(arguments[-1])
        assert arguments[-2] == "--out"
        self.launched.append(name)
        out.mkdir(exist_ok=True)
        assert not any((out / file).exists() for file in FILES), "what counts as finished goes first"
        if name in self.behaviour:
            return self.behaviour[name]()
        origin = {
            "command": shlex.join(["outrider-lab", "run", *arguments]),
            "commit": self.tree.commit,
            "uncommitted_changes": self.tree.uncommitted_changes,
            "models": identities(self.checkpoints(Request(0, quick=False))),
            "versions": versions(),
            "seed": 0,
            "seconds": 120,
            **self.told,
        }
        written = {"title": name, "provenance": origin, "faults": self.faults.get(name, []), "results": {}}
        (out / FILES[0]).write_text(json.dumps(written))
        for file in FILES[1:]:
            (out / file).touch()
        self.meanwhile(name)
        return 0

    async def is_quiet(self) -> bool:
        return self.quiet


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(make_checkpoint(tmp_path / "target", "llama"))
    monkeypatch.setattr(results, "source_tree", lambda: made.tree)
    monkeypatch.setattr(results, "is_quiet", made.is_quiet)
    monkeypatch.setattr(Experiment, "checkpoints", lambda self, request: made.checkpoints(request))
    for name in NAMES:
        monkeypatch.setitem(EXPERIMENTS, name, Experiment(name, "for tests", "none", "none"))
    return made


@pytest.fixture
def make(machine: Machine, tmp_path: Path) -> Callable[..., bool]:
    def make(*only: str, runs: Sequence[KeptRun] = RUNS, replace: bool = False, outside: Outside | None = None) -> bool:
        machine.launched.clear()
        return make_results(runs, tmp_path / "out", outside or {}, replace, only, machine.launch)

    return make


def test_what_was_interrupted_is_run_again_and_what_was_finished_is_not(machine, make, tmp_path):
    def interrupted() -> int:
        (tmp_path / "out" / "second" / UNFINISHED).touch()
        raise KeyboardInterrupt

    machine.behaviour["second"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        make()
    machine.behaviour.clear()
    assert make()
    assert (tmp_path / "out" / "second" / UNFINISHED).exists(), "the run finds its steps"
    assert machine.launched == ["second", "third"]
    assert make()
    assert machine.launched == []


def test_untimed_experiments_run_beside_each_other_and_timed_ones_alone_behind_them(machine, tmp_path):
    together = threading.Barrier(2, timeout=30)
    machine.behaviour |= {"first": lambda: together.wait() * 0, "third": lambda: together.wait() * 0}
    runs = (RUNS[0], KeptRun("second", "second", timed=True), RUNS[2])
    make_results(runs, tmp_path / "out", {}, launch=machine.launch, jobs=2)
    assert set(machine.launched[:2]) == {"first", "third"}
    assert machine.launched[2:] == ["second"]


def test_ctrl_c_that_another_thread_gets_ends_those_that_run_beside_each_other(machine, tmp_path):
    """As one does that comes just before the main thread waits: no call of its own is interrupted."""
    stopped, was_stopped = threading.Event(), []

    def interrupt() -> int:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        was_stopped.append(stopped.wait(20))
        return 1

    machine.behaviour["first"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        make_results(RUNS, tmp_path / "out", {}, launch=machine.launch, jobs=2)
    stopped.set()
    while not was_stopped:
        time.sleep(0.01)
    assert was_stopped == [True]


def test_only_those_that_are_asked_for_are_run(machine, make):
    assert make("third", "first")
    assert machine.launched == ["first", "third"]
    with pytest.raises(MisuseError, match="no run is kept as 'thirst'"):
        make("thirst")


def test_a_failed_experiment_is_named_and_the_rest_go_on(machine, make, capsys):
    machine.behaviour["first"] = lambda: 3
    machine.faults["second"] = ["it rained"]
    assert not make()
    assert machine.launched == list(NAMES)
    said = capsys.readouterr().out
    assert "first: failed with exit code 3" in said
    assert "second: not valid: it rained" in said
    assert "third: " not in said
    machine.behaviour.clear()
    assert not make()
    assert machine.launched == ["first"], "a finished run is kept, valid or not"


def test_commits_are_not_mixed_unless_all_are_replaced(machine, make):
    assert make()
    machine.tree = LATER
    with pytest.raises(MisuseError, match="another commit"):
        make()
    with pytest.raises(MisuseError, match="another commit"):
        make("first")
    assert machine.launched == []
    assert make(replace=True)
    assert machine.launched == list(NAMES)


def test_a_commit_that_computes_the_same_counts_as_the_same(machine, make, monkeypatch, capsys):
    assert make()
    assert "3 of 3 results are there, of 6 minutes together" in capsys.readouterr().out
    machine.tree = LATER
    monkeypatch.setattr(results, "same_computation", lambda kept, now: (kept, now) == ("c0ffee", "decade"))
    assert make()
    assert machine.launched == []


@pytest.mark.parametrize(
    "told",
    [
        {"command": "outrider-lab run first --quick"},
        {"command": "outrider-lab run first --target Llama-3.1-8B"},
        {"command": "outrider-lab run first --device cuda"},
        {"command": "outrider-lab run first --data ../data"},
        {"command": "outrider-lab run second"},
        {"seed": 5},
        {"versions": {"torch": "1.0"}},
    ],
)
def test_what_is_not_the_whole_experiment_with_what_is_installed_does_not_count(machine, make, told):
    machine.told = told
    assert not make("first")
    machine.told = {}
    with pytest.raises(MisuseError, match="out/first comes from"):
        make()
    assert make(replace=True)
    assert machine.launched == list(NAMES)


def test_models_are_not_mixed(machine, make, tmp_path):
    assert make()
    machine.models = make_checkpoint(tmp_path / "retrained", "llama", seed=5)
    with pytest.raises(MisuseError, match="other models"):
        make()
    assert make(replace=True)
    assert machine.launched == list(NAMES)


def test_replacing_some_of_another_commit_would_leave_the_rest(machine, make):
    assert make()
    machine.tree = LATER
    with pytest.raises(MisuseError, match=r"out/second comes from another commit"):
        make("first", replace=True)
    assert machine.launched == []


def test_a_changed_tree_is_refused_before_and_between(machine, make):
    machine.tree = SourceTree("c0ffee", True)
    with pytest.raises(MisuseError, match="commit them first"):
        make()
    machine.tree = SourceTree("", False)
    with pytest.raises(MisuseError, match="in a clone"):
        make()
    machine.tree = COMMIT

    def check_out() -> int:
        machine.tree = LATER
        return 1

    machine.behaviour["first"] = check_out
    with pytest.raises(MisuseError, match="checked out meanwhile"):
        make()
    assert machine.launched == ["first"]


def test_a_tree_that_changes_during_the_last_run_leaves_it_unfinished(machine, make):
    def change(name: str) -> None:
        machine.tree = SourceTree("c0ffee", True) if name == "third" else machine.tree

    machine.meanwhile = change
    with pytest.raises(MisuseError, match=r"commit them first; third counts as unfinished"):
        make()
    assert machine.launched == list(NAMES)
    machine.tree, machine.meanwhile = COMMIT, lambda _: None
    assert make()
    assert machine.launched == ["third"]


@pytest.mark.parametrize("told", [{"uncommitted_changes": True}, {"commit": "another"}])
def test_a_run_that_says_it_is_of_another_source_does_not_count(machine, make, told, capsys):
    machine.told = told
    assert not make("first")
    assert "first: not kept: it says that it was made of another source" in capsys.readouterr().out


def test_what_is_timed_waits_for_a_quiet_machine_and_what_lacks_its_files_is_named(machine, make, capsys):
    machine.quiet = False
    runs = (KeptRun("first", "first", timed=True), KeptRun("second", "second", needs=(DATA,)), RUNS[2])
    assert not make(runs=runs)
    assert machine.launched == ["third"]
    said = capsys.readouterr().out
    assert "first: not run, other programs keep the machine busy" in said
    assert "second: not run, it needs --data" in said
    machine.quiet = True
    assert make(runs=runs, outside={DATA: [Path("data")]})
    assert machine.launched == ["second", "first"]
    assert make(runs=runs), "what is there needs nothing"
    assert machine.launched == []


def test_a_run_of_other_data_is_not_current_wherever_they_lie(machine, make, tmp_path):
    old, moved, new = (write_data(tmp_path / name, text) for name, text in (("old", "a"), ("moved", "a"), ("new", "b")))
    runs = (KeptRun("first", "first", needs=(DATA,)),)
    machine.told = {"inputs": inputs(Request(0, quick=False, data=old))}
    assert make(runs=runs, outside={DATA: [old]})
    assert make(runs=runs, outside={DATA: [moved]})
    assert machine.launched == []
    with pytest.raises(MisuseError, match="other data"):
        make(runs=runs, outside={DATA: [new]})
    machine.told = {}
    assert not make(runs=runs, outside={DATA: [new]}, replace=True), "what does not say its data is of other data"


def write_data(folder: Path, text: str) -> Path:
    (folder / "eval").mkdir(parents=True)
    (folder / "eval" / "questions.jsonl").write_text(text)
    return folder


def test_a_real_run_is_recognised_as_finished(machine, tmp_path, monkeypatch):
    """The launched program's own files, as `outrider-lab run` writes them."""
    tiny = "tests.netem.experiments.tiny"
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "for tests", tiny, f"{tiny}:draw"))

    def run_here(arguments: Sequence[str], log: Path) -> int:
        from netem.commands.run import run_experiment

        machine.launched.append(arguments[0])
        return int(not run_experiment(EXPERIMENTS["tiny"], Request(0, quick=False), Path(arguments[-1])))

    monkeypatch.setattr("netem.experiments.provenance.source_tree", lambda: machine.tree)
    monkeypatch.setattr("netem.commands.run.was_unchanged_since", lambda commit: commit == machine.tree.commit)
    monkeypatch.setattr("sys.argv", ["outrider-lab", "run", "tiny"])
    for _ in range(2):
        assert make_results([KeptRun("tiny", "tiny")], tmp_path / "out", {}, launch=run_here)
    assert machine.launched == ["tiny"]
