"""The law of `speculative` through the real drafting loop and server: few answers at the timing that shows most."""

import asyncio
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.law import conditions
from netem.experiments.law import measure as law
from netem.experiments.law.conditions import TIMINGS, TOKENS, Condition, RankCounts, sample
from netem.experiments.law.measure import FALSE_ALARM, ConditionResult, make_report, p_values
from netem.experiments.law.tables import CHANCES, TableDrafter, Tables, make_tables
from netem.experiments.report import write_report
from netem.experiments.steps import StepFile
from netem.experiments.table_runs import ask
from netem.links.profile import LinkProfile

ANSWERS = 1_200
SHAPE = "two wide, one child"
WIDE = "eight wide, eight children"
NEXT_DOOR = Condition(TIMINGS[0], SHAPE)
CELLS = (
    NEXT_DOOR,
    Condition(TIMINGS[-1], WIDE),
    Condition(TIMINGS[0], "two wide, eight children", "blocks"),
)


@pytest.mark.parametrize("condition", CELLS, ids=lambda each: ", ".join(each.names))
def test_when_groups_come_does_not_follow_from_what_was_drawn(condition: Condition) -> None:
    """With levels that are held back the first of these gives the likeliest token about 0.54 for 0.6; with several
    levels of a block in a step, each of which takes its time, the last gives about 0.53."""
    counted = sample(condition, make_tables(seed=0), ANSWERS, seed=0)
    assert sum(counted.passes) < 0.95 * (TOKENS + 1) * ANSWERS, "drafts are of use"
    assert min(p_values(counted)[1:]) > FALSE_ALARM / (len(CELLS) * (TOKENS - 1))


def test_a_report_names_what_does_not_follow_the_law(tmp_path) -> None:
    honest = np.round(1000 * np.array([CHANCES] * TOKENS)).astype(int)
    biased = honest + np.array([[0] * 5, [-90, 90, 0, 0, 0], [0] * 5])
    report = make_report(
        [
            ConditionResult(NEXT_DOOR, counted(honest)),
            ConditionResult(Condition(TIMINGS[1], WIDE, "blocks"), counted(biased)),
        ]
    )
    assert {fault.partition(" does")[0] for fault in report.faults} == {
        "token 2 at 'next door, faster' with the tree 'eight wide, eight children' and the drafter 'blocks'",
        "token 2 at 'next door, faster' with the tree 'all' and the drafter 'all'",
        "token 2 at 'all' with the tree 'eight wide, eight children' and the drafter 'all'",
        "token 2 at 'all' with the tree 'all' and the drafter 'blocks'",
        "token 2 at 'all' with the tree 'all' and the drafter 'all'",
    }
    origin = {
        "commit": "",
        "uncommitted_changes": False,
        "started": "now",
        "machine": {"processor": "one", "cores": 1, "load_average_before": 0.0},
        "models": {},
        "seed": 0,
        "command": "a test",
    }
    write_report(EXPERIMENTS["law"], report, origin, tmp_path)
    assert "| next door | two wide, one child | levels | 1000 |" in (tmp_path / "table.md").read_text()


def test_a_drafter_that_fails_is_a_fault(monkeypatch) -> None:
    """The answers alone would follow the law."""

    def fail(*_: object) -> None:
        raise ValueError("no such row")

    monkeypatch.setattr(TableDrafter, "draft", fail)
    failed = sample(NEXT_DOOR, make_tables(seed=0), answers=200, seed=0)
    why = "the drafter failed (no such row); the answer went on without it"
    assert failed.faults == [why] * 200
    report = make_report([ConditionResult(NEXT_DOOR, failed)])
    assert report.faults == [f"at 'next door' with the tree '{SHAPE}' and the drafter 'levels', {why}"]


def test_every_answer_meets_a_link_of_its_own(monkeypatch) -> None:
    """With one for all, thousands of answers would show what one course of jitter does."""
    met: list[LinkProfile] = []

    async def note(engine, profile, *others, **more):
        met.append(profile)
        return await ask(engine, profile, *others, **more)

    monkeypatch.setattr(conditions, "ask", note)
    (jittered,) = (each for each in TIMINGS if each.name == "an ocean away")
    for _ in range(2):
        sample(Condition(jittered, SHAPE), make_tables(seed=0), answers=3, seed=0)
    assert len({profile.seed for profile in met[:3]}) == 3
    assert met[:3] == met[3:]


def test_a_deviation_too_small_for_every_row_is_seen_in_all_of_them_together() -> None:
    slightly = np.round(1000 * np.array([CHANCES] * TOKENS)).astype(int) + np.array(
        [[0] * 5, [-40, 40, 0, 0, 0], [0] * 5]
    )
    rows = [ConditionResult(Condition(timing, SHAPE), counted(slightly)) for timing in TIMINGS]
    assert [fault.partition(" does")[0] for fault in make_report(rows).faults] == [
        f"token 2 at 'all' with the tree '{SHAPE}' and the drafter 'all'",
        "token 2 at 'all' with the tree 'all' and the drafter 'levels'",
        "token 2 at 'all' with the tree 'all' and the drafter 'all'",
    ]


def counted(counts: np.ndarray) -> RankCounts:
    return RankCounts(counts, [3] * 1000)


def test_a_run_that_was_broken_off_samples_what_is_missing_and_reports_what_a_whole_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(law, "CONDITIONS", law.CONDITIONS[:3])
    monkeypatch.setattr(law, "QUICK_ANSWERS", 50)
    sampled: list[Condition] = []

    def sample_and_note(condition: Condition, tables: Tables, answers: int, seed: int) -> RankCounts:
        sampled.append(condition)
        return sample(condition, tables, answers, seed)

    def break_off(_: str, share: float) -> None:
        if share > 0.5:
            raise KeyError("no space left")

    def run(advance: Advance) -> Report:
        with closing(StepFile(tmp_path / "steps", "origin", lambda: 0.0)) as steps:
            return asyncio.run(law.measure(Request(0, quick=True, steps=steps), advance))

    whole = asyncio.run(law.measure(Request(0, quick=True), lambda *_: None))
    monkeypatch.setattr(law, "sample", sample_and_note)
    with pytest.raises(KeyError):
        run(break_off)
    assert run(lambda *_: None) == whole
    assert sampled == list(law.CONDITIONS)
