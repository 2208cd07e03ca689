"""`precision`: what differs is counted for each target and dtype, and is a fault where passes were batch-invariant."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from common.protocol.scheduled_tokens import ScheduledTokens
from netem.experiments.dealt_prompts import DealtPrompt
from netem.experiments.precision import DEMO, RANDOM, choose_targets, make_report
from netem.experiments.precision_run import (
    NEAR,
    ComparedAnswers,
    DraftedSystem,
    TestedServer,
    TimedTarget,
    compare_answers,
)
from netem.virtual.client import DraftSetup, LoadedDrafts
from netem.virtual.server import load_virtual_server
from server.passes.batch import ChosenTokens, PassOutcome
from tests.families import make_checkpoint
from tests.netem.experiments.one_device.running import check

SOME = ComparedAnswers(
    target=DEMO,
    dtype="bfloat16",
    mode="batch-invariant",
    drafter="eagle",
    policy="eager",
    sessions=1,
    answers=6,
    different=0,
    recomputed=3,
    recomputed_different=0,
    smallest_margin=0.125,
    ties=0,
    tokens=60,
    passes=20,
    plain_pass_ms=10.0,
    pass_ms=20.0,
)


@pytest.mark.parametrize(("mode", "faults"), [("batch-invariant", 2), ("fast", 0)])
def test_answers_that_differ_are_counted_and_are_a_fault_of_batch_invariant_passes(mode: str, faults: int) -> None:
    first = replace(SOME, mode=mode, different=2, recomputed_different=1)
    second = replace(first, sessions=7, different=1, smallest_margin=0.0, ties=4, pass_ms=40.0)
    report = make_report([first, second])
    check("precision", report)
    assert report.rows[0] == [
        *[DEMO, "bfloat16", mode, "eagle", "eager", "1", "6", "2", "1 of 3", "0.125", "0", "3.00", "10.0", "20.0"]
    ]
    assert report.rows[-1] == [
        *[DEMO, "bfloat16", mode, "all", "", "4", "12", "3", "2 of 6", "0", "4", "3.00", "10.0", "30.0"]
    ]
    assert len(report.faults) == faults


def test_a_target_that_is_unknown_is_refused() -> None:
    assert choose_targets([RANDOM]) == [RANDOM]
    with pytest.raises(MisuseError, match="there is no target 'demon'; choose demo or random"):
        choose_targets(["demon"])


def compared(directory: Path) -> ComparedAnswers:
    target, draft = (make_checkpoint(directory / name, "llama", layers=2) for name in ("target", NEAR))
    server = load_virtual_server(target, [draft], "bfloat16", batch_invariant=True)
    prompts = [DealtPrompt(number, tuple(range(number + 3, number + 20))) for number in range(3)]
    tested = TestedServer(server, LoadedDrafts(server), prompts, [DraftedSystem(DraftSetup(NEAR), "eager", 2)])
    found, faults = compare_answers(tested, 0, (RANDOM, "bfloat16", "batch-invariant"), seed=1)
    assert not faults
    return found


def test_batch_invariant_answers_are_those_of_plain_decoding_and_of_one_prompt(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert (found.answers, found.different, found.recomputed, found.recomputed_different) == (3, 0, 2, 0)
    assert found.tokens > found.passes
    assert found.smallest_margin >= 0
    assert found.pass_ms > 0
    assert found.plain_pass_ms > 0


def test_a_server_whose_nodes_change_the_answer_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verify = TimedTarget.verify

    def verify_wrongly(self: TimedTarget, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        outcomes = verify(self, scheduled)
        return [ChosenTokens([3]) if each.nodes else outcome for each, outcome in zip(scheduled, outcomes, strict=True)]

    monkeypatch.setattr(TimedTarget, "verify", verify_wrongly)
    found = compared(tmp_path)
    assert found.different > 0
    assert found.recomputed_different == 0
