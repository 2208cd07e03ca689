"""`outrider-lab gpu` with parts that are small programs: what fails, lasts too long or is cut off keeps none back."""

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.commands import gpu
from netem.commands.gpu import KEPT, SUMMARY, Kept, run_parts
from netem.experiments.gpu_parts import Part, State
from netem.experiments.provenance import SourceTree

COMMIT = SourceTree("c0ffee", False)


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose `main` executes its argument, so that a part is a line of Python."""
    (tmp_path / "line_of_python.py").write_text("import os, sys, time\n\ndef main():\n    exec(sys.argv[1])\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu, "source_tree", lambda: COMMIT)
    monkeypatch.setattr(gpu, "was_unchanged_since", lambda commit: True)
    monkeypatch.setattr(gpu, "_POLL_S", 0.01)


def part(name: str, line: str, **other: object) -> Part:
    return replace(Part(name, "line_of_python", (line,), minutes=1), **other)


def run(parts: list[Part], tmp_path: Path, seconds: float = math.inf) -> Kept:
    return run_parts(parts, tmp_path / "out", seconds, rehearsed=False)


def is_alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def noting(tmp_path: Path, word: str) -> str:
    return f"open({str(tmp_path / 'noted')!r}, 'a').write({word + ' '!r})"


def noted(tmp_path: Path) -> list[str]:
    return (tmp_path / "noted").read_text().split()


def test_a_part_that_fails_leaves_out_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    parts = [
        part("bad", "sys.exit('no kernel | here')"),
        part("behind", noting(tmp_path, "behind"), needs=("bad",)),
        part("good", noting(tmp_path, "good")),
    ]
    kept = run(parts, tmp_path)
    assert kept.states == {"bad": State.FAILED, "behind": State.LEFT_OUT, "good": State.DONE}
    assert noted(tmp_path) == ["good"]
    assert kept.outcomes["bad"].why == "exit code 1: no kernel / here"
    table = (tmp_path / "out" / SUMMARY).read_text()
    assert "| bad | failed |" in table
    assert "| behind | left out | 0 | 60 | it needs bad |" in table


def test_what_is_settled_is_not_run_again(tmp_path: Path) -> None:
    parts = [part("one", noting(tmp_path, "one")), part("bad", noting(tmp_path, "bad") + "; sys.exit(1)")]
    assert run(parts, tmp_path).states == run(parts, tmp_path).states
    assert noted(tmp_path) == ["one", "bad"]


def test_a_part_that_the_end_of_a_call_cuts_off_has_one_more_call(tmp_path: Path) -> None:
    made = tmp_path / "made"
    parts = [part("slow", f"os.mkdir({str(made)!r}); time.sleep(60)", minutes=0.02, made=(made,))]
    assert run(parts, tmp_path, 1.3).states == {}
    assert "the end of the call cut it off" in (tmp_path / "out" / SUMMARY).read_text()
    assert run(parts, tmp_path, 1.3).outcomes["slow"].why == "the end of 2 calls cut it off"
    assert made.is_dir(), "what the first call left was in the way of the second"


def test_a_part_that_does_not_fit_into_the_call_is_not_begun(tmp_path: Path) -> None:
    parts = [part("long", noting(tmp_path, "long"), minutes=5), part("short", noting(tmp_path, "short"), minutes=0.1)]
    assert run(parts, tmp_path, 60).states == {"short": State.DONE}
    assert noted(tmp_path) == ["short"]


def test_a_call_too_short_for_any_part_says_what_is_left(tmp_path: Path) -> None:
    assert not run([part("long", noting(tmp_path, "long"), minutes=5)], tmp_path, 1).states
    assert "| long | open | 0 | 300 | not run yet |" in (tmp_path / "out" / SUMMARY).read_text()


def test_a_part_that_takes_much_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    child = f"import subprocess; print(subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(60)']).pid"
    parts = [part("stuck", f"{child}, flush=True); time.sleep(60)", minutes=0.02)]
    assert run(parts, tmp_path).outcomes["stuck"].why == "it took more than twice the time that was expected"
    pid = int((tmp_path / "out" / "logs" / "stuck.log").read_text())
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline, "a child of the part outlives it"
        time.sleep(0.01)


def test_the_background_is_halted_for_what_is_timed_and_waited_for(tmp_path: Path) -> None:
    ticks = f"[({noting(tmp_path, 'tick')}, time.sleep(0.05)) for _ in range(20)]"
    timed = f"{noting(tmp_path, 'begin')}; time.sleep(0.4); {noting(tmp_path, 'end')}"
    parts = [
        part("background", ticks, in_background=True),
        part("beside", f"time.sleep(0.4); {noting(tmp_path, 'beside')}"),
        part("timed", timed, timed=True),
        part("behind", noting(tmp_path, "behind"), needs=("background",)),
    ]
    kept = run(parts, tmp_path)
    assert set(kept.states.values()) == {State.DONE}
    words = noted(tmp_path)
    assert "tick" in words[: words.index("beside")]
    assert words[words.index("begin") : words.index("end") + 1] == ["begin", "end"]
    assert (words.count("tick"), words[-1]) == (20, "behind")


def test_what_resumes_is_told_to_where_it_has_begun_and_nowhere_else(tmp_path: Path) -> None:
    """What a run that did not get as far as beginning has left is in its way."""
    work = tmp_path / "work"
    seen = f"sys.argv[2:] + os.listdir({str(tmp_path)!r})"
    note = f"open({str(tmp_path / 'noted')!r}, 'a').write(str({seen}) + chr(10))"
    told = part("target", note, in_background=True, begun=work / "settings.json")
    work.mkdir()
    run([told], tmp_path)
    work.mkdir()
    (work / "settings.json").touch()
    run_parts([told], tmp_path / "again", math.inf, rehearsed=False)
    first, again = (tmp_path / "noted").read_text().splitlines()
    assert ("--resume" in first, "'work'" in first) == (False, False)
    assert ("--resume" in again, "'work'" in again) == (True, True)


def test_parts_of_two_commits_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run([part("one", "pass")], tmp_path)
    monkeypatch.setattr(gpu, "source_tree", lambda: SourceTree("decade", False))
    with pytest.raises(MisuseError, match="parts of another commit"):
        run([part("one", "pass")], tmp_path)
    monkeypatch.setattr(gpu, "source_tree", lambda: SourceTree("c0ffee", True))
    with pytest.raises(MisuseError, match="uncommitted changes"):
        run([part("one", "pass")], tmp_path)
    rehearsed = run_parts([part("one", "pass"), part("two", "pass")], tmp_path / "out", math.inf, rehearsed=True)
    assert list(rehearsed.states) == ["one", "two"]


@pytest.mark.parametrize("in_background", [False, True])
def test_a_part_during_which_the_source_changed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_background: bool
) -> None:
    changed = tmp_path / "changed"
    monkeypatch.setattr(gpu, "was_unchanged_since", lambda commit: commit == COMMIT.commit and not changed.exists())
    changing = part("two", f"open({str(changed)!r}, 'w')", in_background=in_background, needs=("one",))
    with pytest.raises(MisuseError, match="two is not kept"):
        run([part("one", "pass"), changing], tmp_path)
    assert Kept.open(tmp_path / "out", COMMIT).states == {"one": State.DONE}


def test_what_is_kept_after_each_part_can_be_read_again(tmp_path: Path) -> None:
    kept = run([part("one", "pass"), part("two", "sys.exit(1)")], tmp_path)
    assert Kept.open(tmp_path / "out", COMMIT).outcomes == kept.outcomes
    assert json.loads((tmp_path / "out" / KEPT).read_text())["source"]["commit"] == "c0ffee"


def test_results_with_faults_are_not_valid_and_missing_ones_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty:
        faults = ("an answer broke off",)

    monkeypatch.setattr(gpu, "read_finished", lambda folder: Faulty if folder.name == "faulty" else None)
    parts = [part(name, "pass", out=tmp_path / name) for name in ("faulty", "nothing")]
    kept = run(parts, tmp_path)
    assert kept.states == {"faulty": State.INVALID, "nothing": State.FAILED}
    assert kept.outcomes["faulty"].why == "an answer broke off"
