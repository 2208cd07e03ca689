"""`outrider-lab results`: runs all experiments that are kept, from one commit and one family, and timed ones alone.

What was finished from the same commit and the same models is not run again, so that it may be interrupted and resumed.
A commit that differs in documents and tests alone counts as the same.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import typer

from common.protocol.errors import MisuseError
from netem.commands.children import SIGNALS_SEEN_S, Children
from netem.experiments.busy_cores import is_quiet
from netem.experiments.catalogue import find_experiment
from netem.experiments.inputs import inputs
from netem.experiments.kept_results import KeptResults, read_results
from netem.experiments.kept_runs import KeptRun, Outside
from netem.experiments.provenance import SourceTree, identities, same_computation, source_tree, versions
from netem.experiments.report import FILES, PLOT, prepare
from netem.experiments.run_command import read_command

Launch = Callable[[Sequence[str], Path], int]
"""Runs `outrider-lab run` with these arguments in a process of its own, with a file for its output. Returns its exit
code."""


def make_results(
    runs: Sequence[KeptRun],
    out: Path,
    outside: Outside,
    replace: bool = False,
    only: Collection[str] = (),
    launch: Launch | None = None,
    jobs: int = 1,
) -> bool:
    """Runs those of `runs`, or `only` those of these folders, that are missing in `out`; with `replace` also those of
    another commit, of other models, data or versions, or not whole. `jobs` that are not timed run at a time. Says what
    is wrong with each, and returns whether all are there and valid.

    Raises MisuseError where the working tree has changes, where it changes meanwhile, or where `out` would hold results
    of two commits or of two sets of models, and OutriderError where SIGTERM or SIGHUP ends it.
    """
    chosen = _choose(runs, only)
    source = _clean_tree()
    prepare(out)
    current = {run: _is_current(run, out, outside, source) for run in runs}
    others = [run for run in runs if current[run] is False and not (replace and run in chosen)]
    if others:
        raise MisuseError(
            f"{out / others[0].folder} comes from another commit, other models, other data or other versions than "
            "these, or is not whole: choose another folder, or run all of it again with --replace"
        )

    with Children() as children:

        def settle(run: KeptRun) -> tuple[str, str]:
            starts = launch or partial(_launch, children)
            return run.folder, _settle(run, out, outside, source, bool(current[run]), starts)

        wrong = _beside_each_other(settle, [run for run in chosen if not run.timed], jobs)
        wrong |= map(settle, (run for run in chosen if run.timed))
    for folder, what in wrong.items():
        if what:
            typer.echo(f"{folder}: {what}")
    finished = [kept for run in runs if (kept := read_finished(out / run.folder))]
    minutes = sum(kept.provenance.get("seconds", 0) for kept in finished) / 60
    typer.echo(f"{len(finished)} of {len(runs)} results are there, of {minutes:.0f} minutes together")
    return not any(wrong.values())


def _beside_each_other(
    settle: Callable[[KeptRun], tuple[str, str]], runs: Sequence[KeptRun], jobs: int
) -> dict[str, str]:
    if jobs == 1:
        return dict(map(settle, runs))
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = [pool.submit(settle, run) for run in runs]
        under_way = set(futures)
        while under_way:
            done, under_way = wait(under_way, SIGNALS_SEEN_S, FIRST_EXCEPTION)
            for future in done:
                future.result()  # raises what went wrong
        return dict(future.result() for future in futures)
    except Exception:
        pool.shutdown(cancel_futures=True)  # those that run have their time to end
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C begins no further experiment


def _choose(runs: Sequence[KeptRun], only: Collection[str]) -> Sequence[KeptRun]:
    """Raises MisuseError for a folder that is not in the list."""
    unknown = set(only) - {run.folder for run in runs}
    if unknown:
        raise MisuseError(
            f"no run is kept as '{min(unknown)}': choose from {', '.join(sorted(run.folder for run in runs))}"
        )
    return [run for run in runs if run.folder in only] if only else runs


def _clean_tree() -> SourceTree:
    source = source_tree()
    if not source.commit:
        raise MisuseError("results that are kept name a commit: run this in a clone of the repository")
    if source.uncommitted_changes:
        raise MisuseError("the working tree has uncommitted changes, which no commit could name: commit them first")
    return source


def _check_tree(source: SourceTree) -> None:
    """Raises MisuseError where the working tree is no longer that of `source`."""
    if not same_computation(source.commit, _clean_tree().commit):
        raise MisuseError("another commit was checked out meanwhile: results of two would be mixed")


def _is_current(run: KeptRun, out: Path, outside: Outside, source: SourceTree) -> bool | None:
    """Whether a finished run is the whole experiment, of this source, of the installed versions and, where they are at
    hand, of the present models, data, prompts and llama.cpp; None where there is none. One that does not say of which
    data it is, is of other data."""
    kept = read_finished(out / run.folder)
    if kept is None:
        return None
    origin = kept.provenance
    if origin["uncommitted_changes"] or not same_computation(origin["commit"], source.commit):
        return False
    if origin["versions"] != versions() or origin["seed"] != run.request(outside).seed:
        return False
    if not run.is_run_of(read_command(origin["command"]), outside):
        return False
    if _missing(run, outside):
        return True
    present = (inputs(run.request(outside)), _models(run, outside))
    return (origin.get("inputs", {}), origin["models"]) == present


def _missing(run: KeptRun, outside: Outside) -> list[str]:
    return [option for option in run.needs if not outside.get(option)]


def _models(run: KeptRun, outside: Outside) -> dict[str, dict[str, str]]:
    return identities(find_experiment(run.experiment).checkpoints(run.request(outside)))


def _settle(run: KeptRun, out: Path, outside: Outside, source: SourceTree, is_current: bool, launch: Launch) -> str:
    """Runs it unless it is there. Returns what is wrong with it, empty where nothing is."""
    if not is_current:
        if missing := _missing(run, outside):
            return f"not run, it needs {' and '.join(missing)}"
        _check_tree(source)
        if run.timed and not asyncio.run(is_quiet()):
            return "not run, other programs keep the machine busy"
        typer.echo(f"{run.folder} ...")
        for name in FILES:  # its steps stay, if it was broken off
            (out / run.folder / name).unlink(missing_ok=True)
        log = out / f"{run.folder}.log"
        code = launch([*run.arguments(outside), "--out", str(out / run.folder)], log)
        is_right = _is_current(run, out, outside, source)
        try:
            _check_tree(source)
        except MisuseError as changed:
            (out / run.folder / PLOT).unlink(missing_ok=True)
            raise MisuseError(f"{changed}; {run.folder} counts as unfinished") from changed
        if is_right is None:
            return f"failed with exit code {code}; {log} says why"
        if not is_right:
            return (
                "not kept: it says that it was made of another source, other models, data or versions, or not as a "
                "whole"
            )
    kept = read_finished(out / run.folder)
    return f"not valid: {'; '.join(kept.faults)}" if kept and kept.faults else ""


def read_finished(folder: Path) -> KeptResults | None:
    """A finished run; None where it is missing, broken off or not ours."""
    if not all((folder / name).is_file() for name in FILES):
        return None
    try:
        return read_results(folder)
    except MisuseError:
        return None


def _launch(children: Children, arguments: Sequence[str], log: Path) -> int:
    command = [sys.executable, "-c", "from netem.cli import main; main()", "run", *arguments]
    with log.open("wb") as output:
        process = children.start(command, output)
    try:
        return children.wait(process)
    finally:
        children.end(process)
