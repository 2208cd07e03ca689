"""`outrider-lab gpu`: runs the parts of `netem/experiments/gpu_parts.py` one after another, the training of a target in
the background, and keeps after each what has become of it.

A machine may be taken away at any moment: called again, it goes on with what is not settled. It may not know what a
part measures.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer

from common.protocol.errors import MisuseError
from netem.commands.children import Children
from netem.commands.results import read_finished
from netem.experiments.gpu_parts import Part, State, left_out, next_part
from netem.experiments.provenance import SourceTree, source_tree, was_unchanged_since
from netem.experiments.report import prepare

KEPT, SUMMARY, LOGS = "parts.json", "summary.md", "logs"
ROOT = Path(__file__).parents[2]
"""Of the clone, in which pytest finds the tests."""
_POLL_S = 0.2
_CUT_OFF_AT_MOST = 2
"""Calls whose end may cut a part off, before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a part. state: None of one that a call's end cut off. why: empty for one that ended well."""

    state: State | None
    seconds: float
    why: str = ""
    cut_off: int = 0


@dataclass
class Kept:
    """The outcomes in a folder, of one commit; written after each part."""

    out: Path
    source: SourceTree
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def open(cls, out: Path, source: SourceTree, *, rehearsed: bool = False) -> "Kept":
        """Raises MisuseError for a folder with parts of another commit, unless they are `rehearsed`: no results."""
        prepare(out)
        if not (out / KEPT).is_file():
            return cls(out, source)
        content = json.loads((out / KEPT).read_text(encoding="utf-8"))
        if not rehearsed and SourceTree(**content["source"]) != source:
            raise MisuseError(f"{out} holds parts of another commit: choose another folder")
        outcomes = {
            name: Outcome(**each | {"state": each["state"] and State(each["state"])})
            for name, each in content["parts"].items()
        }
        return cls(out, source, outcomes)

    @property
    def states(self) -> dict[str, State]:
        return {name: each.state for name, each in self.outcomes.items() if each.state is not None}

    def put(self, part: Part, outcome: Outcome, parts: Sequence[Part]) -> None:
        self.outcomes[part.name] = outcome
        content = {"source": asdict(self.source), "parts": {name: asdict(each) for name, each in self.outcomes.items()}}
        partial = self.out / f"{KEPT}.partial"
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.out / KEPT)
        self.summarise(parts)

    def summarise(self, parts: Sequence[Part]) -> None:
        (self.out / SUMMARY).write_text(summary(parts, self), encoding="utf-8")


def summary(parts: Sequence[Part], kept: Kept) -> str:
    """A table of all parts, those included that have not run."""
    nothing = Outcome(None, 0.0, "not run yet")
    rows = [(part, kept.outcomes.get(part.name, nothing)) for part in parts]
    lines = [
        f"| {part.name} | {outcome.state or 'open'} | {outcome.seconds:.0f} | {part.seconds:.0f} | {outcome.why} |"
        for part, outcome in rows
    ]
    commit = f"commit {kept.source.commit[:12]}" if kept.source.commit else "no commit is known, as this is no clone"
    changes = " with uncommitted changes" if kept.source.uncommitted_changes else ""
    table = "\n".join(["| part | state | seconds | expected | why |", "| --- | --- | --- | --- | --- |", *lines])
    return f"# Parts of `outrider-lab gpu`\n\n{table}\n\n{commit}{changes}\n"


def run_parts(parts: Sequence[Part], out: Path, call_seconds: float, *, rehearsed: bool) -> Kept:
    """Runs what is not settled, as far as this call's time goes, and returns what is kept by then.

    Raises MisuseError where no commit could identify the parts, or the source changes meanwhile, unless they are
    `rehearsed`, and OutriderError where SIGTERM or SIGHUP ends it.
    """
    source = source_tree()
    if source.uncommitted_changes and not rehearsed:
        raise MisuseError("the working tree has uncommitted changes, which no commit could name: commit them first")
    kept = Kept.open(out, source, rehearsed=rehearsed)
    (out / LOGS).mkdir(exist_ok=True)
    kept.summarise(parts)
    deadline = time.monotonic() + call_seconds

    def put(part: Part, outcome: Outcome) -> None:
        if not rehearsed and not was_unchanged_since(source.commit):
            raise MisuseError(f"the source changed meanwhile: {part.name} is not kept, as it may be of two")
        kept.put(part, outcome, parts)

    with Children() as children:
        background = _Background(out, children)
        while True:
            _leave_out(parts, kept)
            if background.part is not None and (outcome := background.outcome()) is not None:
                put(background.part, outcome)
                background.part = None
            running = () if background.part is None else (background.part.name,)
            part = next_part(parts, kept.states, running, deadline - time.monotonic())
            if part is not None and part.in_background:
                background.start(part)
            elif part is not None:
                typer.echo(f"{part.name} ...")
                with background.halted(part.timed):
                    before = kept.outcomes.get(part.name, Outcome(None, 0.0)).cut_off
                    put(part, run_part(part, out, children, deadline, before))
            elif background.part is None or time.monotonic() >= deadline:
                return kept
            else:
                time.sleep(_POLL_S)


def _leave_out(parts: Sequence[Part], kept: Kept) -> None:
    for part in parts:
        if part.name not in kept.states and (needed := left_out(part, kept.states)):
            kept.put(part, Outcome(State.LEFT_OUT, 0.0, f"it needs {needed}"), parts)


def run_part(part: Part, out: Path, children: Children, deadline: float, cut_off: int = 0) -> Outcome:
    """In a process of its own. cut_off: how often a call's end has cut it off before."""
    for made in (*part.made, *((part.out,) if part.out is not None else ())):
        shutil.rmtree(made, ignore_errors=True)
        made.unlink(missing_ok=True)
    began = time.monotonic()
    process = _start(part, out, children)
    try:
        process.wait(min(part.longest_seconds, max(_POLL_S, deadline - began)))
    except subprocess.TimeoutExpired:
        seconds = time.monotonic() - began
        if seconds >= part.longest_seconds:
            return Outcome(State.FAILED, seconds, "it took more than twice the time that was expected")
        if cut_off + 1 >= _CUT_OFF_AT_MOST:
            return Outcome(State.FAILED, seconds, f"the end of {_CUT_OFF_AT_MOST} calls cut it off")
        return Outcome(None, seconds, "the end of the call cut it off", cut_off + 1)
    finally:
        children.end(process)
    return _judge(part, out, process.returncode, time.monotonic() - began)


def _judge(part: Part, out: Path, code: int, seconds: float) -> Outcome:
    finished = None if part.out is None else read_finished(part.out)
    if finished is not None:
        return Outcome(State.INVALID if finished.faults else State.DONE, seconds, "; ".join(finished.faults))
    if code or part.out is not None:
        return Outcome(State.FAILED, seconds, f"exit code {code}: {_last_words(out / LOGS / f'{part.name}.log')}")
    return Outcome(State.DONE, seconds)


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].replace("|", "/") if lines else "it said nothing"


class _Background:
    """At most one part in the background, which can be halted."""

    def __init__(self, out: Path, children: Children):
        self.part: Part | None = None
        self._out = out
        self._children = children
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._halted_s = 0.0

    def start(self, part: Part) -> None:
        self.part, self._process = part, _start(part, self._out, self._children)
        self._began, self._halted_s = time.monotonic(), 0.0

    def outcome(self) -> Outcome | None:
        """None while it runs."""
        assert self.part is not None
        assert self._process is not None
        seconds = time.monotonic() - self._began - self._halted_s
        code = self._process.poll()
        if code is not None:
            return _judge(self.part, self._out, code, seconds)
        if seconds <= self.part.longest_seconds:
            return None
        self._children.end(self._process)
        return Outcome(State.FAILED, seconds, "it took more than twice the time that was expected")

    @contextmanager
    def halted(self, is_halted: bool) -> Iterator[None]:
        """What is halted keeps its memory on a GPU and computes nothing there."""
        if not is_halted or self._process is None or self._process.poll() is not None:
            yield
            return
        began = time.monotonic()
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)
            self._halted_s += time.monotonic() - began


def _start(part: Part, out: Path, children: Children) -> "subprocess.Popen[bytes]":
    resumed: tuple[str, ...] = ()
    if part.begun is not None and part.begun.exists():
        resumed = ("--resume",)
    elif part.begun is not None:
        shutil.rmtree(part.begun.parent, ignore_errors=True)
    program = ("-m", part.module) if part.module == "pytest" else ("-c", f"from {part.module} import main; main()")
    with (out / LOGS / f"{part.name}.log").open("ab") as log:
        return children.start([sys.executable, *program, *part.arguments, *resumed], log, ROOT)
